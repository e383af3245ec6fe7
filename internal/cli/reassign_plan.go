package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// assignment is the replicas of partitions, in preferred order.
type assignment map[kafka.TopicPartition][]int32

func (as assignment) sorted() []kafka.TopicPartition {
	return slices.SortedFunc(maps.Keys(as), comparePartitions)
}

func (as assignment) topics() []string {
	var names []string
	for tp := range as {
		names = append(names, tp.Topic)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func comparePartitions(a, b kafka.TopicPartition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

func partitionNames(tps []kafka.TopicPartition) string {
	names := make([]string, len(tps))
	for i, tp := range tps {
		names[i] = tp.String()
	}
	return strings.Join(names, ",")
}

// replicaOf is one replica of a partition.
type replicaOf struct {
	kafka.TopicPartition
	Broker int32
}

func (r replicaOf) String() string { return fmt.Sprintf("%v-%d", r.TopicPartition, r.Broker) }

func compareReplicas(a, b replicaOf) int {
	return cmp.Or(cmp.Compare(a.Broker, b.Broker), comparePartitions(a.TopicPartition, b.TopicPartition))
}

// reassignment is what a file of reassign-partitions says: replicas, and the directories of those that have to lie in a
// certain one.
type reassignment struct {
	parts assignment
	dirs  map[replicaOf]string
}

// anyDir is what a file says where the broker may choose.
const anyDir = "any"

// The JSON of kafka-reassign-partitions.sh, key for key.
type reassignmentJSON struct {
	Version    int                     `json:"version"`
	Partitions []reassignmentPartition `json:"partitions"`
}

type reassignmentPartition struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Replicas  []int32  `json:"replicas"`
	LogDirs   []string `json:"log_dirs"`
}

func (as assignment) json() string {
	doc := reassignmentJSON{Version: 1, Partitions: []reassignmentPartition{}}
	for _, tp := range as.sorted() {
		p := reassignmentPartition{tp.Topic, tp.Partition, as[tp], make([]string, len(as[tp]))}
		for i := range p.LogDirs {
			p.LogDirs[i] = anyDir
		}
		doc.Partitions = append(doc.Partitions, p)
	}
	text, _ := json.Marshal(doc) // of strings and numbers: it never fails
	return string(text)
}

// parseReassignment reads {"partitions": [{"topic": …, "partition": …, "replicas": […], "log_dirs": […]}], "version": 1}.
func parseReassignment(text []byte) (*reassignment, error) {
	var doc struct {
		Version    *int `json:"version"`
		Partitions []struct {
			Topic     *string  `json:"topic"`
			Partition *int32   `json:"partition"`
			Replicas  []int32  `json:"replicas"`
			LogDirs   []string `json:"log_dirs"`
		} `json:"partitions"`
	}
	if err := parseJSON(text, &doc, `{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}`); err != nil {
		return nil, err
	}
	if doc.Version != nil && *doc.Version != 1 {
		return nil, fmt.Errorf("not supported version field value %d", *doc.Version)
	}
	if len(doc.Partitions) == 0 {
		return nil, errors.New("partition reassignment list cannot be empty")
	}
	r := &reassignment{assignment{}, map[replicaOf]string{}}
	for i, p := range doc.Partitions {
		if p.Topic == nil || p.Partition == nil {
			return nil, fmt.Errorf("entry %d lacks topic or partition", i+1)
		}
		tp := kafka.TopicPartition{Topic: *p.Topic, Partition: *p.Partition}
		_, twice := r.parts[tp]
		sorted := slices.Sorted(slices.Values(p.Replicas))
		switch {
		case twice:
			return nil, fmt.Errorf("partition reassignment contains duplicate topic partitions: %v", tp)
		case len(p.Replicas) == 0:
			return nil, fmt.Errorf("partition replica list cannot be empty: %v", tp)
		case len(slices.Compact(sorted)) != len(p.Replicas):
			return nil, fmt.Errorf("partition replica lists may not contain duplicate entries: %v has %s", tp, ids(p.Replicas))
		case p.LogDirs != nil && len(p.LogDirs) != len(p.Replicas):
			return nil, fmt.Errorf("size of replicas list %v is different from size of log dirs list %v for partition %v", p.Replicas, p.LogDirs, tp)
		}
		r.parts[tp] = p.Replicas
		for j, dir := range p.LogDirs {
			if dir != anyDir {
				r.dirs[replicaOf{tp, p.Replicas[j]}] = dir
			}
		}
	}
	return r, nil
}

// parseTopicsToMove reads {"topics": [{"topic": …}], "version": 1}.
func parseTopicsToMove(text []byte) ([]string, error) {
	var doc struct {
		Version *int `json:"version"`
		Topics  []struct {
			Topic string `json:"topic"`
		} `json:"topics"`
	}
	if err := parseJSON(text, &doc, `{"topics": [{"topic": "orders"}], "version": 1}`); err != nil {
		return nil, err
	}
	if doc.Version != nil && *doc.Version != 1 {
		return nil, fmt.Errorf("not supported version field value %d", *doc.Version)
	}
	var topics []string
	for _, t := range doc.Topics {
		if slices.Contains(topics, t.Topic) {
			return nil, fmt.Errorf("list of topics to reassign contains duplicate entries: %s", t.Topic)
		}
		topics = append(topics, t.Topic)
	}
	if len(topics) == 0 {
		return nil, errors.New("it names no topics")
	}
	return topics, nil
}

// brokerAt is a broker that replicas may be put on.
type brokerAt struct {
	id   int32
	rack string // "" = none is known
}

// metadata asks a broker what the cluster looks like now; kadm would answer from what it heard up to five seconds ago. No
// topics means all.
func (cl *client) metadata(ctx context.Context, topics ...string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	return req.RequestWith(ctx, cl)
}

// metadataOf asks one broker for all topics.
func (cl *client) metadataOf(ctx context.Context, broker int32) (*kmsg.MetadataResponse, error) {
	resp, err := cl.Broker(int(broker)).RetriableRequest(ctx, kmsg.NewPtrMetadataRequest())
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.MetadataResponse), nil
}

// brokers returns the brokers that are up, by id.
func (cl *client) brokers(ctx context.Context) ([]brokerAt, error) {
	m, err := cl.metadata(ctx)
	if err != nil {
		return nil, err
	}
	var all []brokerAt
	for _, b := range m.Brokers {
		all = append(all, brokerAt{b.NodeID, text(b.Rack)})
	}
	slices.SortFunc(all, func(a, b brokerAt) int { return cmp.Compare(a.id, b.id) })
	return all, nil
}

// placed is how full brokers are while a plan is made.
type placed struct {
	brokers  []brokerAt
	rackOf   map[int32]string
	leads    map[int32]int
	replicas map[int32]int
}

func newPlaced(brokers []brokerAt) *placed {
	p := &placed{brokers: brokers, rackOf: map[int32]string{}, leads: map[int32]int{}, replicas: map[int32]int{}}
	for _, b := range brokers {
		p.rackOf[b.id] = b.rack
	}
	return p
}

func (p *placed) count(replicas []int32, by int) {
	for i, id := range replicas {
		p.replicas[id] += by
		if i == 0 {
			p.leads[id] += by
		}
	}
}

// choose is the broker that a partition with the given replicas gains most by: in a rack that has fewest of them, and with
// the least to do. first says that it shall be the preferred leader.
func (p *placed) choose(replicas []int32, first bool) (int32, bool) {
	inRack := map[string]int{}
	for _, id := range replicas {
		inRack[p.rackOf[id]]++
	}
	best, found := brokerAt{}, false
	better := func(a, b brokerAt) bool {
		burden := func(id int32) (int, int) {
			if first {
				return p.leads[id], p.replicas[id]
			}
			return p.replicas[id], p.leads[id]
		}
		a1, a2 := burden(a.id)
		b1, b2 := burden(b.id)
		racks := 0
		if a.rack != "" || b.rack != "" {
			racks = cmp.Compare(inRack[a.rack], inRack[b.rack])
		}
		return cmp.Or(racks, cmp.Compare(a1, b1), cmp.Compare(a2, b2), cmp.Compare(a.id, b.id)) < 0
	}
	for _, b := range p.brokers {
		if !slices.Contains(replicas, b.id) && (!found || better(b, best)) {
			best, found = b, true
		}
	}
	return best.id, found
}

// spreadOver plans the partitions of topics anew over brokers, with as many replicas as they have: leaders and replicas
// evenly, replicas of a partition in different racks as far as there are any.
func spreadOver(current assignment, brokers []brokerAt) (assignment, error) {
	on, next := newPlaced(brokers), assignment{}
	for _, tp := range current.sorted() {
		var replicas []int32
		for i := range current[tp] {
			id, ok := on.choose(replicas, i == 0)
			if !ok {
				return nil, fmt.Errorf("replication factor: %d larger than available brokers: %d", len(current[tp]), len(brokers))
			}
			replicas = append(replicas, id)
		}
		on.count(replicas, 1)
		next[tp] = replicas
	}
	return next, nil
}

// assigned returns the replicas of the partitions of topics, or of all, those of reassignments under way included.
func (cl *client) assigned(ctx context.Context, topics ...string) (assignment, error) {
	m, err := cl.metadata(ctx, topics...)
	if err != nil {
		return nil, err
	}
	return assignedIn(m)
}

func assignedIn(m *kmsg.MetadataResponse) (assignment, error) {
	as := assignment{}
	for _, t := range m.Topics {
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			return nil, fmt.Errorf("topic %s not found", text(t.Topic))
		case err != nil:
			return nil, fmt.Errorf("topic %s: %w", text(t.Topic), err)
		}
		for _, p := range t.Partitions {
			as[kafka.TopicPartition{Topic: text(t.Topic), Partition: p.Partition}] = p.Replicas
		}
	}
	return as, nil
}

// move is a reassignment under way.
type move struct{ replicas, adding, removing []int32 }

func (m move) target() []int32 { return lacking(m.replicas, m.removing) }

// moves returns what is being reassigned in the whole cluster.
func (cl *client) moves(ctx context.Context) (map[kafka.TopicPartition]move, error) {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = refused("list reassignments", kerr.ErrorForCode(resp.ErrorCode), text(resp.ErrorMessage))
	}
	if err != nil {
		return nil, err
	}
	moves := map[kafka.TopicPartition]move{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			moves[kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = move{p.Replicas, p.AddingReplicas, p.RemovingReplicas}
		}
	}
	return moves, nil
}

// partitionsAtOnce bounds one request to reassign: the controller answers it with one entry of its log.
const partitionsAtOnce = 1000

// alter starts reassignments; nil replicas cancel one. Partitions that are refused come back with their reasons.
func (cl *client) alter(ctx context.Context, parts assignment, sameFactor bool) (map[kafka.TopicPartition]error, error) {
	failed := map[kafka.TopicPartition]error{}
	for chunk := range slices.Chunk(parts.sorted(), partitionsAtOnce) {
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.AllowReplicationFactorChange = !sameFactor
		for _, tp := range chunk {
			if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != tp.Topic {
				req.Topics = append(req.Topics, kmsg.AlterPartitionAssignmentsRequestTopic{Topic: tp.Topic})
			}
			topic := &req.Topics[len(req.Topics)-1]
			topic.Partitions = append(topic.Partitions, kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: tp.Partition, Replicas: parts[tp]})
		}
		resp, err := req.RequestWith(ctx, cl)
		if err == nil {
			err = refused("reassign partitions", kerr.ErrorForCode(resp.ErrorCode), text(resp.ErrorMessage))
		}
		if err != nil {
			return failed, err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				tp := kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}
				if err := refused(tp.String(), kerr.ErrorForCode(p.ErrorCode), text(p.ErrorMessage)); err != nil {
					failed[tp] = err
				}
			}
		}
	}
	return failed, nil
}

// refusals joins the reasons why partitions were refused, in their order.
func refusals(what string, failed map[kafka.TopicPartition]error) error {
	if len(failed) == 0 {
		return nil
	}
	lines := []string{what}
	for _, tp := range slices.SortedFunc(maps.Keys(failed), comparePartitions) {
		lines = append(lines, failed[tp].Error())
	}
	return errors.New(strings.Join(lines, "\n"))
}

// sizes is how many bytes each replica has on disk, as far as brokers say.
type sizes map[replicaOf]int64

func (cl *client) sizes(ctx context.Context, parts assignment) (sizes, error) {
	set := kadm.TopicsSet{}
	for tp := range parts {
		set.Add(tp.Topic, tp.Partition)
	}
	all, err := cl.admin.DescribeAllLogDirs(ctx, set)
	if err != nil && len(all) == 0 {
		return nil, fmt.Errorf("ask brokers how much there is to move: %w", err)
	}
	s := sizes{}
	for broker, dirs := range all {
		for _, dir := range dirs {
			for _, topic := range dir.Topics {
				for _, p := range topic {
					s[replicaOf{kafka.TopicPartition{Topic: p.Topic, Partition: p.Partition}, broker}] += p.Size
				}
			}
		}
	}
	return s, nil
}

// of is the size of a partition: that of its largest replica.
func (s sizes) of(tp kafka.TopicPartition, replicas []int32) int64 {
	size := int64(0)
	for _, id := range replicas {
		size = max(size, s[replicaOf{tp, id}])
	}
	return size
}

// traffic is what a plan copies and where to.
type traffic struct {
	replicas int
	bytes    int64
	to       map[int32]int64
}

// work sums up what it takes to come from one assignment to another.
func (s sizes) work(from, to assignment) traffic {
	t := traffic{to: map[int32]int64{}}
	for _, tp := range to.sorted() {
		size := s.of(tp, from[tp])
		for _, id := range lacking(to[tp], from[tp]) {
			t.replicas++
			t.bytes += size
			t.to[id] += size
		}
	}
	return t
}

func (t traffic) String() string {
	if t.replicas == 0 {
		return "No data has to be copied."
	}
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(t.to)) {
		parts = append(parts, fmt.Sprintf("%s to broker %d", byteText(t.to[id]), id))
	}
	return fmt.Sprintf("%s to copy in %d replica%s: %s.", byteText(t.bytes), t.replicas, plural(t.replicas), strings.Join(parts, ", "))
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// byteText is a number of bytes as a person reads it.
func byteText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/1024, 0
	for f >= 1024 && unit < 4 {
		f /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGTP"[unit])
}

// lacking returns the ids that are not among others, in their order.
func lacking(list, others []int32) []int32 {
	var out []int32
	for _, id := range list {
		if !slices.Contains(others, id) {
			out = append(out, id)
		}
	}
	return out
}
