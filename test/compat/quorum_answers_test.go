package compat

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/test/harness"
)

const quorumAnswersFile = "testdata/quorum-answers.txt"

// TestQuorumAnswers asks three nodes, each a controller and a broker, to describe their quorum, in every version, and what
// does not exist. The answers are Apache Kafka's; under MOLDAU_EFFORT=night that is asked anew.
func TestQuorumAnswers(t *testing.T) {
	kept := readAnswers(t, quorumAnswersFile)
	nodes := harness.PrepareNodes(t, 3)
	var brokers []string
	for _, n := range nodes {
		n.Spawn(t)
		brokers = append(brokers, n.Addr)
	}
	for _, n := range nodes {
		n.WaitReady(t, time.Minute)
	}
	ours := askQuorum(t, brokers)
	if *update || os.Getenv("MOLDAU_EFFORT") == "night" {
		var theirs []string
		for _, b := range harness.ApacheKafka(t, harness.KafkaVersion).PrepareBrokers(t, 3) {
			b.Spawn(t)
			theirs = append(theirs, b.Addr)
		}
		for _, address := range theirs {
			awaitAddress(t, address)
		}
		kafkas := askQuorum(t, theirs)
		if *update {
			var questions []string
			for _, q := range quorumQuestions() {
				questions = append(questions, q.name)
			}
			writeAnswers(t, quorumAnswersFile, questions, ours, kafkas)
			return
		}
		compareKafka(t, kept, kafkas)
	}
	compareAnswers(t, quorumAnswersFile, kept, ours)
}

func awaitAddress(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

type quorumQuestion struct {
	name      string
	version   int16
	topic     string
	partition int32
	topics    bool // any at all
}

func quorumQuestions() []quorumQuestion {
	const log = "__cluster_metadata"
	return []quorumQuestion{
		{"quorum v0", 0, log, 0, true},
		{"quorum v1", 1, log, 0, true},
		{"quorum v2", 2, log, 0, true},
		{"another partition", 2, log, 1, true},
		{"another topic", 2, "orders", 0, true},
		{"no topic", 2, "", 0, false},
	}
}

// askQuorum asks a cluster of three. It waits until all three have caught up: how long that takes is nobody's answer.
func askQuorum(t *testing.T, brokers []string) map[string]string {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	answers := make(map[string]string)
	for _, q := range quorumQuestions() {
		for deadline := time.Now().Add(time.Minute); ; {
			answer, err := q.ask(t.Context(), cl)
			answers[q.name] = answer
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v: %s", q.name, err, answer)
			}
			<-time.After(200 * time.Millisecond)
		}
	}
	return answers
}

// ask returns the answer without what differs from one cluster to the next. An error means that it is too early to ask.
func (q quorumQuestion) ask(ctx context.Context, cl *kgo.Client) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req := kmsg.NewPtrDescribeQuorumRequest()
	if q.topics {
		topic := kmsg.NewDescribeQuorumRequestTopic()
		topic.Topic = q.topic
		p := kmsg.NewDescribeQuorumRequestTopicPartition()
		p.Partition = q.partition
		topic.Partitions = append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
	}
	answer, err := cl.Broker(1).RetriableRequest(ctx, pinned{req, q.version})
	if err != nil {
		return err.Error(), err
	}
	r := answer.(*kmsg.DescribeQuorumResponse)
	var b strings.Builder
	fmt.Fprintf(&b, "error=%s message=%s", answerName(r.ErrorCode), present(r.ErrorMessage))
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			fmt.Fprintf(&b, " %s-%d error=%s message=%s leader=%v epoch=%v watermark=%v", topic.Topic, p.Partition, answerName(p.ErrorCode), present(p.ErrorMessage),
				p.LeaderID > 0, sign(int64(p.LeaderEpoch)), sign(p.HighWatermark))
			states, problem := describeReplicas("voter", p.CurrentVoters, p.HighWatermark)
			err = errors.Join(err, problem)
			observers, problem := describeReplicas("observer", p.Observers, p.HighWatermark)
			err = errors.Join(err, problem)
			b.WriteString(states + observers)
		}
	}
	slices.SortFunc(r.Nodes, func(a, b kmsg.DescribeQuorumResponseNode) int { return int(a.NodeID - b.NodeID) })
	for _, n := range r.Nodes {
		fmt.Fprintf(&b, " node %d:", n.NodeID)
		for _, l := range n.Listeners {
			fmt.Fprintf(&b, " %s://%s", l.Name, l.Host)
		}
	}
	return b.String(), err
}

func describeReplicas(what string, states []kmsg.DescribeQuorumResponseTopicPartitionReplicaState, highWatermark int64) (string, error) {
	var b strings.Builder
	var err error
	slices.SortFunc(states, func(a, b kmsg.DescribeQuorumResponseTopicPartitionReplicaState) int {
		return int(a.ReplicaID - b.ReplicaID)
	})
	for _, s := range states {
		if s.LogEndOffset < highWatermark {
			err = fmt.Errorf("%s %d is at %d, the high watermark at %d", what, s.ReplicaID, s.LogEndOffset, highWatermark)
		}
		fmt.Fprintf(&b, " %s %d: directory=%v end=%v fetch=%v caught-up=%v", what, s.ReplicaID, s.ReplicaDirectoryID != [16]byte{},
			sign(s.LogEndOffset), sign(s.LastFetchTimestamp), sign(s.LastCaughtUpTimestamp))
	}
	return b.String(), err
}

// sign tells a number that is one from none.
func sign(n int64) string {
	switch {
	case n < 0:
		return fmt.Sprint(n)
	case n == 0:
		return "0"
	}
	return "some"
}

func present(message *string) string {
	switch {
	case message == nil:
		return "null"
	case *message == "":
		return "empty"
	}
	return "some"
}

// pinned is a request in one version.
type pinned struct {
	*kmsg.DescribeQuorumRequest
	version int16
}

func (p pinned) MaxVersion() int16 { return p.version }
