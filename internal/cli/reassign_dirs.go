package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
)

// dirMove is where a replica lies and where it is moved to. Empty: nowhere.
type dirMove struct{ current, future string }

// state is the sentence in which kafka-reassign-partitions.sh says how a move to a directory is going.
func (m dirMove) state(r replicaOf, target string) string {
	switch {
	case m.current == "" && m.future == "":
		return fmt.Sprintf("Partition %v cannot be found in any live log directory on broker %d.", r.TopicPartition, r.Broker)
	case m.current == "":
		return fmt.Sprintf("Partition %v is not found in any live log dir on broker %d. There is likely an offline log directory on the broker.", r.TopicPartition, r.Broker)
	case m.future == target:
		return fmt.Sprintf("Reassignment of replica %v is still in progress.", r)
	case m.future != "":
		return fmt.Sprintf("Partition %v on broker %d is being moved to log dir %s instead of %s.", r.TopicPartition, r.Broker, m.future, target)
	case m.current == target:
		return fmt.Sprintf("Reassignment of replica %v completed successfully.", r)
	}
	return fmt.Sprintf("Partition %v on broker %d is not being moved from log dir %s to %s.", r.TopicPartition, r.Broker, m.current, target)
}

// dirMoves asks brokers where the replicas lie.
func (cl *client) dirMoves(ctx context.Context, wanted map[replicaOf]string) (map[replicaOf]dirMove, error) {
	found := map[replicaOf]dirMove{}
	brokers := map[int32]kadm.TopicsSet{}
	for r := range wanted {
		if brokers[r.Broker] == nil {
			brokers[r.Broker] = kadm.TopicsSet{}
		}
		set := brokers[r.Broker]
		set.Add(r.Topic, r.Partition)
	}
	for _, id := range slices.Sorted(maps.Keys(brokers)) {
		dirs, err := cl.admin.DescribeBrokerLogDirs(ctx, id, brokers[id])
		if err != nil {
			return nil, fmt.Errorf("ask broker %d for its directories: %w", id, err)
		}
		for _, d := range dirs.Sorted() {
			for _, p := range d.Topics.Sorted() {
				r := replicaOf{kafka.TopicPartition{Topic: p.Topic, Partition: p.Partition}, id}
				m := found[r]
				if p.IsFuture {
					m.future = d.Dir
				} else {
					m.current = d.Dir
				}
				found[r] = m
			}
		}
	}
	return found, nil
}

// moveDirs begins moves to directories. A replica that is not there yet, because it is on its way to that broker, is asked
// for again until --timeout is over.
func (a *app) moveDirs(ctx context.Context, cl *client, f *reassignFlags, wanted map[replicaOf]string) error {
	pending := maps.Clone(wanted)
	for end := time.Now().Add(time.Duration(f.timeoutMs) * time.Millisecond); len(pending) > 0; {
		for _, r := range slices.SortedFunc(maps.Keys(pending), compareReplicas) {
			req := kadm.AlterReplicaLogDirsReq{pending[r]: kadm.TopicsSet{r.Topic: {r.Partition: {}}}}
			resp, err := cl.admin.AlterBrokerReplicaLogDirs(ctx, r.Broker, req)
			if err != nil {
				return fmt.Errorf("Failed to alter dir for %v: %w", r, err)
			}
			answer, ok := resp[r.Topic][r.Partition]
			switch {
			case !ok, errors.Is(answer.Err, kerr.ReplicaNotAvailable):
			case answer.Err != nil:
				return fmt.Errorf("Failed to alter dir for %v: %w", r, answer.Err)
			default:
				fmt.Fprintf(a.stdout, "Successfully started moving log directory to %s for replica %v with broker %d\n", pending[r], r.TopicPartition, r.Broker)
				delete(pending, r)
			}
		}
		if len(pending) == 0 {
			return nil
		}
		if !time.Now().Before(end) {
			var names []string
			for _, r := range slices.SortedFunc(maps.Keys(pending), compareReplicas) {
				names = append(names, r.String())
			}
			return fmt.Errorf("timed out before log directory move%s could be started for: %s", plural(len(pending)), strings.Join(names, ","))
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
