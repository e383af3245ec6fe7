package compat

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/test/harness"
)

// attacked is a node that must come out of a test as it went in.
type attacked struct {
	*harness.Node
	goroutines int
	peakKiB    atomic.Int64
	stop       chan struct{}
	watching   sync.WaitGroup
}

// underAttack starts a node, looks at it in peace and watches its memory from then on.
func underAttack(t *testing.T, extra ...string) *attacked {
	t.Helper()
	a := &attacked{Node: harness.Start(t, extra...), stop: make(chan struct{})}
	a.serves(t, "before")
	a.goroutines = a.count(t)
	a.watching.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-a.stop:
				return
			case <-tick.C:
				a.peakKiB.Store(max(a.peakKiB.Load(), harness.ResidentKiB(t, a.Pid())))
			}
		}
	})
	return a
}

var total = regexp.MustCompile(`^goroutine profile: total (\d+)`)

func (a *attacked) count(t *testing.T) int {
	t.Helper()
	_, body := a.Get(t, "/debug/pprof/goroutine?debug=1")
	m := total.FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("no goroutine profile: %.100s", body)
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// serves has an honest client create, write and read.
func (a *attacked) serves(t *testing.T, topic string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(a.Addr), kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, kgo.StringRecord("honest")).FirstErr(); err != nil {
		t.Fatalf("an honest client cannot write: %v", err)
	}
	fetches := client.PollFetches(ctx)
	if err := fetches.Err(); err != nil || fetches.NumRecords() == 0 || string(fetches.Records()[0].Value) != "honest" {
		t.Fatalf("an honest client cannot read: %v, %d records", err, fetches.NumRecords())
	}
}

// unharmed checks that the node is as it was before the attack.
func (a *attacked) unharmed(t *testing.T, maxMiB int64) {
	t.Helper()
	close(a.stop)
	a.watching.Wait()
	select {
	case <-a.Done():
		t.Fatalf("the node died: %v\n%s", a.Err(), lastLines(a.Log(), 40))
	default:
	}
	if code, body := a.Get(t, "/livez"); code != 200 {
		t.Errorf("/livez: %d %s", code, body)
	}
	a.serves(t, "after")
	for deadline := time.Now().Add(20 * time.Second); a.count(t) > a.goroutines+2; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			_, stacks := a.Get(t, "/debug/pprof/goroutine?debug=1")
			t.Errorf("%d goroutines, %d before:\n%.6000s", a.count(t), a.goroutines, stacks)
			break
		}
	}
	for _, word := range []string{"panic", "invariant:", "goroutine ", "fatal error"} {
		if i := strings.Index(a.Log(), word); i >= 0 {
			t.Errorf("%q in the log: %.2000s", word, a.Log()[i:])
		}
	}
	if peak := a.peakKiB.Load() >> 10; peak > maxMiB {
		t.Errorf("the node took %d MiB, allowed are %d", peak, maxMiB)
	} else {
		t.Logf("at most %d MiB resident", peak)
	}
}

// mischief makes up requests.
type mischief struct {
	*rand.Rand
	ids [][16]byte // topic ids that exist
}

func (m *mischief) pick(of ...string) string { return of[m.IntN(len(of))] }

func (m *mischief) text() string {
	return m.pick("", "attack-plain", "attack-plain", "attack-compact", "nowhere", ".", "..", "a/b", "a b", "ä", "\x00", "\xff\xfe", strings.Repeat("x", 249),
		strings.Repeat("x", 250), strings.Repeat("y", 32767), "__cluster_metadata", "__consumer_offsets", "retention.ms", "cleanup.policy", "compact",
		"-1", "9223372036854775808", "metadata.version", "1", "0", "attack,attack", "%s%n", "../../etc", "*", "PLAINTEXT")
}

func (m *mischief) number(bits int) int64 {
	switch m.IntN(8) {
	case 0, 1:
		return 0
	case 2:
		return 1
	case 3:
		return -1
	case 4:
		return int64(m.IntN(20)) - 4
	case 5:
		return -1 << (bits - 1)
	case 6:
		return 1<<(bits-1) - 1
	}
	return m.Int64() >> (64 - bits)
}

func (m *mischief) length() int {
	switch m.IntN(10) {
	case 0, 1:
		return 0
	case 2:
		return 3
	case 3:
		return m.IntN(300)
	}
	return 1
}

func (m *mischief) fill(v reflect.Value, name string, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		if d, ok := v.Addr().Interface().(interface{ Default() }); ok {
			d.Default()
		}
		for i := range v.NumField() {
			if field := v.Type().Field(i).Name; field != "Version" && field != "UnknownTags" {
				m.fill(v.Field(i), field, depth+1)
			}
		}
	case reflect.Pointer:
		if m.IntN(4) == 0 {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		m.fill(v.Elem(), name, depth)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if name == "Records" {
				v.SetBytes(m.records())
				return
			}
			v.SetBytes([]byte(m.text()))
			return
		}
		n := m.length()
		if depth > 3 {
			n = min(n, 3)
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			m.fill(v.Index(i), name, depth+1)
		}
	case reflect.Array:
		if len(m.ids) > 0 && m.IntN(2) == 0 {
			reflect.Copy(v, reflect.ValueOf(m.ids[m.IntN(len(m.ids))]))
			return
		}
		for i := range v.Len() {
			v.Index(i).SetUint(m.Uint64() & 0xff)
		}
	case reflect.String:
		v.SetString(m.text())
	case reflect.Bool:
		v.SetBool(m.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n := m.number(v.Type().Bits())
		switch {
		case name == "NumPartitions" || name == "Count": // of a legal size they are only work
			n = []int64{-1, 0, 1, 2, math.MinInt32, math.MaxInt32, 10001}[m.IntN(7)]
		case name == "TimeoutMillis" || name == "MaxWaitMillis":
			n = []int64{-1, 0, 1, 50, math.MinInt32, math.MaxInt32}[m.IntN(6)]
		}
		v.SetInt(n)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(m.number(v.Type().Bits())) & (1<<v.Type().Bits() - 1))
	case reflect.Float64:
		v.SetFloat([]float64{0, -1, math.NaN(), math.Inf(1), math.MaxFloat64}[m.IntN(5)])
	}
}

func (m *mischief) records() []byte {
	b := plainBatch(time.Now(), "one", "two")
	if m.IntN(2) == 0 {
		m.fill(reflect.ValueOf(&b).Elem(), "", 2)
		if m.IntN(2) == 0 {
			b.Magic = 2
		}
		b.Records = plainBatch(time.Now(), "one", "two").Records
	}
	raw := sealed(b)
	if m.IntN(3) == 0 {
		raw = m.damage(raw)
	}
	return raw
}

// damage changes bytes, cuts, or inserts.
func (m *mischief) damage(b []byte) []byte {
	for range 1 + m.IntN(4) {
		if len(b) < 2 {
			break
		}
		at := m.IntN(len(b))
		switch m.IntN(6) {
		case 0:
			b[at] ^= 1 << m.IntN(8)
		case 1:
			b[at] = 0xff
		case 2:
			b[at] = 0
		case 3:
			b[at] = byte(m.Uint32())
		case 4:
			b = b[:at]
		case 5:
			b = append(b[:at:at], append([]byte{0xff, 0xff, 0xff, 0x7f}, b[at:]...)...)
		}
	}
	return b
}

// frame makes one request, as kmsg encodes it, and may damage it.
func (m *mischief) frame(key, version int16) []byte {
	req := kmsg.RequestForKey(key)
	m.fill(reflect.ValueOf(req).Elem(), "", 0)
	req.SetVersion(version)
	b := encode(req, int32(m.Uint32()))
	if m.IntN(2) == 0 {
		body := m.damage(b[4:])
		b = append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
		if m.IntN(20) == 0 {
			binary.BigEndian.PutUint32(b, m.Uint32())
		}
	}
	return b
}

// served asks a listener what it serves.
func served(t *testing.T, address string) []kmsg.ApiVersionsResponseApiKey {
	t.Helper()
	r := dialRaw(t, address)
	defer r.conn.Close()
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "attack", "1"
	resp, err := r.ask(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(*kmsg.ApiVersionsResponse).ApiKeys
}

// TestHostileRequests sends every API in every version with whatever the fields can hold, half of it damaged.
func TestHostileRequests(t *testing.T) {
	a := underAttack(t)
	setup := dialRaw(t, a.Addr)
	createTopics(t, setup)
	setup.conn.Close()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var sent, answered atomic.Int64
	until := time.Now().Add(time.Duration(harness.Thorough()) * 8 * time.Second)
	var attackers sync.WaitGroup
	for worker, address := range []string{a.Addr, a.Addr, a.Addr, a.Controller} {
		apis := served(t, address)
		attackers.Go(func() {
			m := &mischief{Rand: rand.New(rand.NewPCG(seed, uint64(worker)))}
			var r *raw
			for time.Now().Before(until) {
				if r == nil {
					conn, err := net.Dial("tcp", address)
					if err != nil {
						t.Errorf("dial: %v", err)
						return
					}
					r = &raw{conn: conn}
				}
				api := apis[m.IntN(len(apis))]
				b := m.frame(api.ApiKey, api.MinVersion+int16(m.IntN(int(api.MaxVersion-api.MinVersion)+1)))
				_ = r.conn.SetWriteDeadline(time.Now().Add(time.Second))
				_, err := r.conn.Write(b)
				sent.Add(1)
				if err == nil && m.IntN(4) > 0 {
					if _, err = r.frame(100 * time.Millisecond); err == nil {
						answered.Add(1)
					}
				}
				if err != nil || m.IntN(50) == 0 {
					_ = r.conn.Close()
					r = nil
				}
			}
			if r != nil {
				_ = r.conn.Close()
			}
		})
	}
	attackers.Wait()
	t.Logf("%d requests, %d answers", sent.Load(), answered.Load())
	a.writable(t, "attack") // somebody may have fenced the broker in its own name
	a.unharmed(t, 400)
}
