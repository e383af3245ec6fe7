package batch

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

type control interface {
	AppendTo([]byte) []byte
	ReadFrom([]byte) error
}

func TestControlRecordsAreTheSchemasBytes(t *testing.T) {
	dir := kafka.UUID{0xaa, 15: 0xbb}
	dirHex := "aa0000000000000000000000000000bb"
	tags, tagsHex := []Tag{{ID: 3, Value: []byte{9}}, {ID: 300, Value: []byte{}}}, "02"+"030109"+"ac0200"
	for _, c := range []struct {
		kind  ControlType
		value control
		want  string
	}{
		{ControlCommit, &EndTxnMarker{CoordinatorEpoch: 5}, "0000" + "00000005"},
		{ControlLeaderChange, &LeaderChange{LeaderID: 1, Voters: []LeaderChangeVoter{{ID: 1}, {ID: 2}}, GrantingVoters: []LeaderChangeVoter{{ID: 1}}},
			"0000" + "00000001" + "03" + "0000000100" + "0000000200" + "02" + "0000000100" + "00"},
		{ControlLeaderChange, &LeaderChange{Version: 1, LeaderID: 1, Voters: []LeaderChangeVoter{{ID: 1, Dir: dir, Tags: tags}}, Tags: tags},
			"0001" + "00000001" + "02" + "00000001" + dirHex + tagsHex + "01" + tagsHex},
		{ControlSnapshotHeader, &SnapshotHeader{LastContainedLogTimestamp: 258, Tags: tags}, "0000" + "0000000000000102" + tagsHex},
		{ControlSnapshotFooter, &SnapshotFooter{}, "0000" + "00"},
		{ControlKRaftVersion, &KRaftVersion{KRaftVersion: 1, Tags: tags}, "0000" + "0001" + tagsHex},
		{ControlKRaftVoters, &KRaftVoters{Voters: []KRaftVoter{{ID: 3, Dir: dir, MaxVersion: 1,
			Endpoints: []KRaftEndpoint{{Name: "C", Host: "ab", Port: 0xff01}}}}, Tags: tags},
			"0000" + "02" + "00000003" + dirHex + "02" + "0243" + "036162" + "ff01" + "00" + "0000" + "0001" + "00" + "00" + tagsHex},
	} {
		got := c.value.AppendTo(nil)
		if hex.EncodeToString(got) != c.want {
			t.Errorf("%v: %x, want %s", c.kind, got, c.want)
		}
		back := reflect.New(reflect.TypeOf(c.value).Elem()).Interface().(control)
		if err := back.ReadFrom(got); err != nil || !reflect.DeepEqual(back, c.value) {
			t.Errorf("%v: read back %+v, %v", c.kind, back, err)
		}
		for n := range got {
			if err := back.ReadFrom(got[:n]); !errors.Is(err, kerr.InvalidRecord) {
				t.Errorf("%v: %d of %d bytes: %v", c.kind, n, len(got), err)
			}
		}
		kind, version, err := ParseControl(Record{Key: c.kind.Key(), Value: got})
		if err != nil || kind != c.kind || version != int16(got[1]) {
			t.Errorf("%v: parsed as %v version %d, %v", c.kind, kind, version, err)
		}
	}
}

// kmsg knows two of them.
func TestControlRecordsAgreeWithKmsg(t *testing.T) {
	marker := kmsg.EndTxnMarker{CoordinatorEpoch: 77}
	if got := (&EndTxnMarker{CoordinatorEpoch: 77}).AppendTo(nil); !bytes.Equal(got, marker.AppendTo(nil)) {
		t.Errorf("marker %x", got)
	}
	change := kmsg.LeaderChangeMessage{LeaderID: 4, Voters: []kmsg.LeaderChangeMessageVoter{{VoterID: 4}}, GrantingVoters: []kmsg.LeaderChangeMessageVoter{}}
	ours := &LeaderChange{LeaderID: 4, Voters: []LeaderChangeVoter{{ID: 4}}}
	if got := ours.AppendTo(nil); !bytes.Equal(got, change.AppendTo(nil)) {
		t.Errorf("leader change %x, kmsg %x", got, change.AppendTo(nil))
	}
}

func TestParseControlRefuses(t *testing.T) {
	for name, r := range map[string]Record{
		"short key":            {Key: []byte{0, 0, 0}, Value: []byte{0, 0}},
		"negative key version": {Key: []byte{0xff, 0xff, 0, 0}, Value: []byte{0, 0}},
		"no value":             {Key: ControlCommit.Key()},
		"negative version":     {Key: ControlCommit.Key(), Value: []byte{0x80, 0}},
	} {
		if _, _, err := ParseControl(r); !errors.Is(err, kerr.InvalidRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if kind, _, err := ParseControl(Record{Key: []byte{0, 9, 0, 42}, Value: []byte{0, 0}}); kind != 42 || err != nil {
		t.Errorf("a kind of the future: %v, %v", kind, err)
	}
}

func FuzzControl(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x00\x05"))
	f.Add((&KRaftVoters{Voters: []KRaftVoter{{ID: 3, Endpoints: []KRaftEndpoint{{Name: "C", Host: "h", Port: 1}}}}}).AppendTo(nil))
	f.Add((&LeaderChange{Version: 1, Voters: []LeaderChangeVoter{{ID: 1, Tags: []Tag{{ID: 1, Value: []byte("x")}}}}}).AppendTo(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, v := range []control{&EndTxnMarker{}, &LeaderChange{}, &SnapshotHeader{}, &SnapshotFooter{}, &KRaftVersion{}, &KRaftVoters{}} {
			if v.ReadFrom(raw) != nil {
				continue
			}
			back := reflect.New(reflect.TypeOf(v).Elem()).Interface().(control)
			if err := back.ReadFrom(v.AppendTo(nil)); err != nil || !reflect.DeepEqual(back, v) {
				t.Fatalf("%+v came back as %+v, %v", v, back, err)
			}
		}
	})
}
