package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/server"
)

const (
	// clientSlots bounds how many clients are remembered. Names are theirs to choose, and some choose a new one each time.
	clientSlots = 500
	// clientKeys is how many API keys are told apart: all of Kafka's, and none of ours between nodes.
	clientKeys = 128
)

// clientKey is what a client says of itself.
type clientKey struct {
	id      string // client.id
	name    string // of the software, from ApiVersions version 3 on (KIP-511); "" if it did not say
	version string // of the software
}

// client is what is remembered of everybody who says the same of himself.
type client struct {
	key      clientKey
	seenMs   atomic.Int64 // when the last request came, to about a second
	address  atomic.Pointer[string]
	versions [clientKeys]atomic.Uint32 // by API key: bit v says that version v was used
	produced cost                      // of converting what it sent
	fetched  cost                      // of converting what it was sent
}

// cost is what conversions for one client took.
type cost struct{ batches, records, bytes, nanos atomic.Int64 }

func (c *cost) add(records, bytes int, took time.Duration) {
	c.batches.Add(1)
	c.records.Add(int64(records))
	c.bytes.Add(int64(bytes))
	c.nanos.Add(int64(took))
}

// clients are those that were seen last on the listeners of brokers.
type clients struct {
	mu    sync.Mutex
	byKey map[clientKey]*client
}

// of is the client that sends a request. The connection remembers it: a request costs a comparison of names.
func (c *clients) of(r *server.Request) *client {
	name, version := r.Conn.Software()
	key := clientKey{r.ClientID(), name, version}
	if known, ok := r.Conn.Note().(*client); ok && known.key == key {
		return known
	}
	known := c.find(key)
	if addr := r.Conn.RemoteAddr(); addr != nil {
		text := addr.String()
		known.address.Store(&text)
	}
	r.Conn.SetNote(known)
	return known
}

// find returns the client of a key. If there are too many, the one is forgotten that has been silent for longest.
func (c *clients) find(key clientKey) *client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.byKey[key]; ok {
		return known
	}
	if c.byKey == nil {
		c.byKey = make(map[clientKey]*client)
	}
	if len(c.byKey) >= clientSlots {
		oldest := slices.MinFunc(slices.Collect(maps.Values(c.byKey)), func(a, b *client) int {
			return cmp.Or(cmp.Compare(a.seenMs.Load(), b.seenMs.Load()), compareKeys(a.key, b.key))
		})
		delete(c.byKey, oldest.key)
	}
	known := &client{key: key}
	c.byKey[key] = known
	return known
}

func compareKeys(a, b clientKey) int {
	return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.name, b.name), cmp.Compare(a.version, b.version))
}

// saw notes a request.
func (c *clients) saw(r *server.Request) {
	known := c.of(r)
	if key := r.Header.Key; key >= 0 && key < clientKeys && r.Header.Version < 32 {
		if bit := uint32(1) << r.Header.Version; known.versions[key].Load()&bit == 0 {
			known.versions[key].Or(bit)
		}
	}
	if now := r.Received.UnixMilli(); now-known.seenMs.Load() >= 1000 {
		known.seenMs.Store(now)
	}
}

// oldest4 is the lowest version that Apache Kafka 4 serves, of the APIs where 3.9 served lower ones.
func oldest4() map[int16]int {
	return map[int16]int{
		0: 3, 1: 4, 2: 1, 8: 2, 9: 1, 19: 2, 20: 1, 23: 2, 27: 1, 29: 1, 30: 1, 31: 1, 32: 1, 34: 1, 35: 1, 38: 1, 39: 1, 40: 1, 41: 1,
	}
}

// Client is one client as told to operators.
type Client struct {
	ID       string                  `json:"clientId"`
	Software string                  `json:"software,omitempty"`
	Version  string                  `json:"version,omitempty"`
	Address  string                  `json:"lastAddress,omitempty"`
	LastSeen time.Time               `json:"lastSeen"`
	APIs     map[string]VersionsUsed `json:"apis"`
	TooOld   []string                `json:"tooOldForKafka4,omitempty"` // the APIs whose lowest version Apache Kafka 4 does not serve
	Produced ConversionCost          `json:"convertedProduced"`
	Fetched  ConversionCost          `json:"convertedFetched"`
}

// VersionsUsed are the lowest and the highest version of an API that a client has used.
type VersionsUsed struct {
	Lowest  int `json:"lowest"`
	Highest int `json:"highest"`
}

// ConversionCost is what converting between formats took.
type ConversionCost struct {
	Batches int64   `json:"batches"`
	Records int64   `json:"records"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

func (c *cost) told() ConversionCost {
	return ConversionCost{c.batches.Load(), c.records.Load(), c.bytes.Load(), time.Duration(c.nanos.Load()).Seconds()}
}

// Clients returns the clients that were seen last on broker listeners, sorted by name: up to some hundred of them.
func (a *API) Clients() []Client {
	a.clients.mu.Lock()
	known := slices.Collect(maps.Values(a.clients.byKey))
	a.clients.mu.Unlock()
	slices.SortFunc(known, func(a, b *client) int { return compareKeys(a.key, b.key) })
	told, oldest := make([]Client, 0, len(known)), oldest4()
	for _, k := range known {
		c := Client{
			ID: k.key.id, Software: k.key.name, Version: k.key.version, LastSeen: time.UnixMilli(k.seenMs.Load()).UTC(),
			APIs: make(map[string]VersionsUsed), Produced: k.produced.told(), Fetched: k.fetched.told(),
		}
		if address := k.address.Load(); address != nil {
			c.Address = *address
		}
		for key := range k.versions {
			if used := k.versions[key].Load(); used != 0 {
				name, versions := kmsg.NameForKey(int16(key)), VersionsUsed{bits.TrailingZeros32(used), 31 - bits.LeadingZeros32(used)}
				c.APIs[name] = versions
				if least := oldest[int16(key)]; versions.Lowest < least {
					c.TooOld = append(c.TooOld, fmt.Sprintf("%s %d", name, versions.Lowest))
				}
			}
		}
		told = append(told, c)
	}
	return told
}

// ServeClients answers an HTTP request with Clients, as JSON.
func (a *API) ServeClients(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a.Clients()) // whoever asked has gone
}
