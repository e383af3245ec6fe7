package metadata

import (
	"fmt"
	"strings"
	"testing"
)

type journal struct {
	name string
	into *strings.Builder
}

func (j journal) Apply(d *Delta, image *Image) {
	fmt.Fprintf(j.into, "%s@%d", j.name, image.Offset)
	for _, c := range d.ChangedTopics() {
		fmt.Fprintf(j.into, " +%s%v", c.After.Name, c.Partitions)
	}
	for _, topic := range d.DeletedTopics() {
		fmt.Fprintf(j.into, " -%s", topic.Name)
	}
	j.into.WriteString("\n")
}

func TestLoaderTellsEverySubscriberInOrder(t *testing.T) {
	var told strings.Builder
	l := NewLoader(journal{"a", &told}, journal{"b", &told})
	topic := func(n int) []Record {
		return []Record{&TopicRecord{Name: fmt.Sprintf("t%d", n), TopicID: id(n)}, &PartitionRecord{TopicID: id(n), Leader: -1}}
	}
	steps := []error{
		l.Commit(1, 1, topic(1)),
		l.Commit(1, 1, topic(1)), // seen before: nothing happens
		l.Commit(3, 1, append(topic(1), topic(2)...)),
		l.Snapshot(9, 2, append(topic(2), topic(3)...)),
		l.Commit(10, 2, []Record{&RemoveTopicRecord{TopicID: id(3)}}),
	}
	for i, err := range steps {
		if err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
	want := "a@1 +t1[0]\nb@1 +t1[0]\na@3 +t2[0]\nb@3 +t2[0]\na@9 +t3[0] -t1\nb@9 +t3[0] -t1\na@10 -t3\nb@10 -t3\n"
	if got := told.String(); got != want {
		t.Errorf("told:\n%swant:\n%s", got, want)
	}
	if err := l.Commit(11, 2, []Record{&RemoveTopicRecord{TopicID: id(7)}}); err == nil || !strings.Contains(err.Error(), "offset 11") {
		t.Errorf("removing an unknown topic: %v", err)
	}
	if l.Image().Offset != 10 {
		t.Errorf("a failed commit moved the image to %d", l.Image().Offset)
	}
}

func TestLoaderHoldsTransactionsBack(t *testing.T) {
	l := NewLoader()
	commit := func(offset int64, records ...Record) {
		t.Helper()
		if err := l.Commit(offset, 1, records); err != nil {
			t.Fatal(err)
		}
	}
	commit(1, &BeginTransactionRecord{}, &TopicRecord{Name: "a", TopicID: id(1)})
	if l.Image().Topics.Len() != 0 {
		t.Error("a topic of an open transaction is visible")
	}
	commit(3, &TopicRecord{Name: "b", TopicID: id(2)}, &EndTransactionRecord{})
	if l.Image().Topics.Len() != 2 {
		t.Errorf("%d topics after the end of the transaction, want 2", l.Image().Topics.Len())
	}
	commit(6, &BeginTransactionRecord{}, &TopicRecord{Name: "c", TopicID: id(3)}, &AbortTransactionRecord{})
	if l.Image().Topics.Len() != 2 || l.Image().Offset != 6 {
		t.Errorf("%d topics at %d after an aborted transaction, want 2 at 6", l.Image().Topics.Len(), l.Image().Offset)
	}
	for _, r := range []Record{&EndTransactionRecord{}, &AbortTransactionRecord{}} {
		if err := l.Commit(7, 1, []Record{r}); err == nil {
			t.Errorf("took %T without a transaction", r)
		}
	}
}
