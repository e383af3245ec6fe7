package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// The settings that slow replication down while data moves (KIP-73).
const (
	leaderRate        = "leader.replication.throttled.rate"
	followerRate      = "follower.replication.throttled.rate"
	dirRate           = "replica.alter.log.dirs.io.max.bytes.per.second"
	leaderThrottled   = "leader.replication.throttled.replicas"
	followerThrottled = "follower.replication.throttled.replicas"
)

// settingChange is settings of one topic or broker; nil removes one.
type settingChange struct {
	kind   kmsg.ConfigResourceType
	name   string
	values map[string]*string
}

func (cl *client) change(ctx context.Context, changes []settingChange) error {
	if len(changes) == 0 {
		return nil
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, c := range changes {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = c.kind, c.name
		for _, name := range slices.Sorted(maps.Keys(c.values)) {
			op := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			op.Name, op.Value = name, c.values[name]
			if op.Value == nil {
				op.Op = kmsg.IncrementalAlterConfigOpDelete
			}
			r.Configs = append(r.Configs, op)
		}
		req.Resources = append(req.Resources, r)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		what := map[kmsg.ConfigResourceType]string{kmsg.ConfigResourceTypeTopic: "topic ", kmsg.ConfigResourceTypeBroker: "broker "}[r.ResourceType]
		if err := refused("set the throttle of "+what+r.ResourceName, kerr.ErrorForCode(r.ErrorCode), text(r.ErrorMessage)); err != nil {
			return err
		}
	}
	return nil
}

// throttle slows the moves down from one assignment to another, and those under way: replicas that were there are
// throttled as leaders, new ones as followers.
func (cl *client) throttle(ctx context.Context, under map[kafka.TopicPartition]move, from, to assignment, rate int64) error {
	leaders, followers := map[string][]string{}, map[string][]string{}
	brokers := map[int32]bool{}
	add := func(tp kafka.TopicPartition, sources, destinations []int32) {
		for _, id := range sources {
			leaders[tp.Topic] = append(leaders[tp.Topic], fmt.Sprintf("%d:%d", tp.Partition, id))
			brokers[id] = true
		}
		for _, id := range destinations {
			followers[tp.Topic] = append(followers[tp.Topic], fmt.Sprintf("%d:%d", tp.Partition, id))
			brokers[id] = true
		}
	}
	for tp, m := range under {
		if _, again := to[tp]; !again {
			add(tp, lacking(m.replicas, m.adding), m.adding)
		}
	}
	for tp, replicas := range to {
		sources := from[tp]
		if m, moving := under[tp]; moving {
			sources = lacking(m.replicas, m.adding)
		}
		add(tp, sources, lacking(replicas, sources))
	}
	var changes []settingChange
	for _, topic := range slices.Sorted(maps.Keys(leaders)) {
		values := map[string]*string{}
		for name, list := range map[string][]string{leaderThrottled: leaders[topic], followerThrottled: followers[topic]} {
			slices.Sort(list)
			joined := strings.Join(list, ",")
			values[name] = &joined
		}
		changes = append(changes, settingChange{kmsg.ConfigResourceTypeTopic, topic, values})
	}
	value := strconv.FormatInt(rate, 10)
	for _, id := range slices.Sorted(maps.Keys(brokers)) {
		changes = append(changes, settingChange{kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id)), map[string]*string{leaderRate: &value, followerRate: &value}})
	}
	return cl.change(ctx, changes)
}

// throttleDirs slows down the copying between directories of brokers.
func (cl *client) throttleDirs(ctx context.Context, moving map[replicaOf]string, rate int64) error {
	brokers := map[int32]bool{}
	for r := range moving {
		brokers[r.Broker] = true
	}
	value := strconv.FormatInt(rate, 10)
	var changes []settingChange
	for _, id := range slices.Sorted(maps.Keys(brokers)) {
		changes = append(changes, settingChange{kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id)), map[string]*string{dirRate: &value}})
	}
	return cl.change(ctx, changes)
}

// unthrottle removes every throttle that a reassignment of the partitions may have set. A broker's settings are changed
// by itself, so one that is not up keeps its throttle; those come back as away.
func (cl *client) unthrottle(ctx context.Context, parts assignment) (brokers, away []int32, topics []string, err error) {
	known, err := cl.brokers(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, b := range known {
		brokers = append(brokers, b.id)
	}
	for _, tp := range parts.sorted() {
		for _, id := range lacking(parts[tp], brokers) {
			if !slices.Contains(away, id) {
				away = append(away, id)
			}
		}
	}
	there, err := cl.assigned(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	existing := there.topics()
	var changes []settingChange
	for _, id := range brokers {
		changes = append(changes, settingChange{kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id)), map[string]*string{leaderRate: nil, followerRate: nil, dirRate: nil}})
	}
	for _, topic := range parts.topics() {
		if slices.Contains(existing, topic) { // one that was deleted meanwhile has no throttle
			topics = append(topics, topic)
			changes = append(changes, settingChange{kmsg.ConfigResourceTypeTopic, topic, map[string]*string{leaderThrottled: nil, followerThrottled: nil}})
		}
	}
	return brokers, away, topics, cl.change(ctx, changes)
}
