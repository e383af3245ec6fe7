package zookeeper

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzPassedOffsets: what another node passes on is read or refused, whatever it is, and what was read is what was said.
func FuzzPassedOffsets(f *testing.F) {
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Group, fetch.Topics = "g", []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0, 1}}}
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.Topics = "g", []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 1, Offset: 2}}}}
	for _, req := range []kmsg.Request{fetch, commit} {
		f.Add(appendOffsets(nil, req))
	}
	f.Add([]byte{0})
	f.Add([]byte{0, 3, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := parseOffsets(body)
		if err != nil {
			return
		}
		again, err := parseOffsets(appendOffsets(nil, req))
		if err != nil || again.Key() != req.Key() {
			t.Fatalf("%x is read once and not twice: %v", body, err)
		}
	})
}
