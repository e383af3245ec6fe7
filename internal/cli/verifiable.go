package cli

import (
	"io"
	"slices"
	"sync"
	"time"

	"moldau/internal/kafka"
)

// events prints what happens to a verifiable tool, one line of JSON each, as Apache Kafka's system tests read it.
type events struct {
	mu  sync.Mutex
	w   io.Writer
	err error // the first failed write
}

// tell prints one event. Its time and name go before the members.
func (e *events) tell(name string, members ...member) {
	e.mu.Lock()
	defer e.mu.Unlock()
	line := javaJSON(append(object{{"timestamp", time.Now().UnixMilli()}, {"name", name}}, members...))
	if _, err := io.WriteString(e.w, line+"\n"); err != nil && e.err == nil {
		e.err = err
	}
}

// failure is the first write that failed: without a reader there is nothing to go on for.
func (e *events) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// orNil is bytes as a string, or null.
func orNil(b []byte) any {
	if b == nil {
		return nil
	}
	return string(b)
}

// partitionsJSON are partitions, sorted, as these tools print them.
func partitionsJSON(lists map[string][]int32, more func(tp kafka.TopicPartition) []member) []any {
	all := []any{}
	for _, topic := range sortedKeys(lists) {
		for _, p := range slices.Sorted(slices.Values(lists[topic])) {
			o := object{{"topic", topic}, {"partition", int64(p)}}
			if more != nil {
				o = append(o, more(kafka.TopicPartition{Topic: topic, Partition: p})...)
			}
			all = append(all, o)
		}
	}
	return all
}
