package api

import (
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestWholeMetadata: an answer that is kept is the one that would be made, for each way to ask, and a new image ends it.
func TestWholeMetadata(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("a", 2)
		for _, created := range []string{"b", "c"} {
			for _, version := range []int16{0, 1, 8, 12, 13} {
				for _, operations := range []bool{false, true} {
					ask := func() *kmsg.MetadataResponse {
						req := kmsg.NewPtrMetadataRequest()
						req.Version = version
						req.IncludeTopicAuthorizedOperations, req.IncludeClusterAuthorizedOperations = operations && version >= 8, operations && version == 8
						return n.ask(req).(*kmsg.MetadataResponse)
					}
					first, again := ask(), ask()
					n.api.whole.image = nil
					if anew := ask(); !reflect.DeepEqual(first, anew) || !reflect.DeepEqual(again, anew) {
						n.t.Errorf("version %d, operations %v:\n%+v\n%+v, made anew\n%+v", version, operations, first, again, anew)
					}
				}
			}
			n.create(created, 1)
			req := kmsg.NewPtrMetadataRequest()
			req.Version = 12
			told := n.ask(req).(*kmsg.MetadataResponse).Topics
			if last := told[len(told)-1]; *last.Topic != created || len(last.Partitions) != 1 {
				n.t.Errorf("after %s was made: %+v", created, told)
			}
		}
	})
}
