package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// claim is what a cooperative member says in JoinGroup of what it owns, and since when (KIP-429, KIP-792).
type claim struct {
	generation int32
	owned      []int32
}

func (c claim) bytes() []byte { return fmt.Appendf(nil, "%d:%s", c.generation, list(c.owned)) }

func claimOf(metadata []byte) (c claim) {
	generation, owned, _ := strings.Cut(string(metadata), ":")
	n, _ := strconv.Atoi(generation) // a member that knows no generation yet owns nothing
	return claim{int32(n), unlist(owned)}
}

func list(partitions []int32) string {
	var texts []string
	for _, p := range partitions {
		texts = append(texts, strconv.Itoa(int(p)))
	}
	return strings.Join(texts, ",")
}

func unlist(text string) (partitions []int32) {
	for one := range strings.SplitSeq(text, ",") {
		if n, err := strconv.Atoi(one); err == nil {
			partitions = append(partitions, int32(n))
		}
	}
	return partitions
}

// deal gives each member its part, as the group's leader does. Among cooperative members what somebody owns and another is to have
// is nobody's for one generation.
func deal(members []kmsg.JoinGroupResponseMember, cooperative bool) map[string][]int32 {
	parts := make(map[string][]int32)
	owners := make(map[int32]string)
	since := make(map[int32]int32)
	var ids []string
	for _, m := range members {
		ids = append(ids, m.MemberID)
		parts[m.MemberID] = nil
		if !cooperative {
			continue
		}
		c := claimOf(m.ProtocolMetadata)
		for _, p := range c.owned {
			if c.generation > since[p] {
				owners[p], since[p] = m.MemberID, c.generation
			}
		}
	}
	if len(ids) == 0 { // it does not lead the group
		return parts
	}
	slices.Sort(ids)
	for p := range int32(partitions) {
		id := ids[int(p)%len(ids)]
		if owner := owners[p]; owner == "" || owner == id {
			parts[id] = append(parts[id], p)
		}
	}
	return parts
}
