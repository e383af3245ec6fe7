package oracle

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRandom has two clients do what a seed says, one after the other. The answers to some seeds are kept; under
// MOLDAU_EFFORT=night Apache Kafka is asked about others.
func TestRandom(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			path := fmt.Sprintf("testdata/random/%d.txt", seed)
			book := readBook(t, path)
			if *renew {
				book = keepOurs(book, randomScene(seed))
			}
			compare(t, path, &scene{book})
		})
	}
	if os.Getenv("MOLDAU_EFFORT") != "night" {
		return
	}
	first := uint64(time.Now().UnixNano())
	for seed := first; seed < first+5; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			newest, ours, book := releases()[0], moldau(t), scene{randomScene(seed)}
			serves := newest.serves(t)
			common := serves.both(ours.ask(t))
			book.play(newStage(t, newest.run(t), serves, common), func(e *entry, said answers) { e.kafka = said })
			book.play(newStage(t, ours, serves, common), func(e *entry, said answers) { e.compare(t, said) })
		})
	}
}

// keepOurs takes what is ours from an older book of the same seed.
func keepOurs(old, book []*entry) []*entry {
	for _, e := range book {
		if i := slices.IndexFunc(old, func(o *entry) bool { return o.line == e.line && o.input == e.input }); i >= 0 {
			e.ours = old[i].ours
		}
	}
	return book
}

// randomSteps is how many things are done in a scene, waiting for their effect not counted.
const randomSteps = 120

// randomScene is what a seed says. It knows which topics there are, and waits where Apache Kafka takes its time to show
// what it has done.
func randomScene(seed uint64) []*entry {
	r := rand.New(rand.NewPCG(seed, seed))
	var book []*entry
	say := func(line, input string) { book = append(book, &entry{line: line, input: input}) }
	topics := map[string]int{} // how many partitions each has
	say("group shared", "")
	say("create kept partitions=3", "") // never deleted: when Apache Kafka drops the offsets of a deleted topic differs
	for step := range randomSteps {
		topic, partition := fmt.Sprintf("t%d", r.IntN(3)), r.IntN(3)
		name := func(api string, version int16) string {
			return fmt.Sprintf("ask %s %d: step %d", api, version, step)
		}
		version := func(low, high int) int16 { return int16(low + r.IntN(high-low+1)) }
		if r.IntN(3) == 0 {
			say(fmt.Sprintf("client %d", 1+r.IntN(2)), "")
		}
		one := func(fields string) string {
			return fmt.Sprintf(`"Topics": [{"Topic": %q, "Partitions": [{"Partition": %d, %s}]}]`, topic, partition, fields)
		}
		switch r.IntN(14) {
		case 0, 1:
			partitions := 1 + r.IntN(3)
			say(name("CreateTopics", version(2, 4)), fmt.Sprintf(`{"TimeoutMillis": 10000, "Topics": [{"Topic": %q, "NumPartitions": %d, "ReplicationFactor": 1}]}`, topic, partitions)+"\n")
			if topics[topic] == 0 {
				topics[topic] = partitions
				say("await "+topic, "")
			}
		case 2:
			say(name("DeleteTopics", version(1, 5)), fmt.Sprintf(`{"TimeoutMillis": 10000, "TopicNames": [%q]}`, topic)+"\n")
			if topics[topic] > 0 {
				delete(topics, topic)
				say("gone "+topic, "")
			}
		case 3, 4, 5: // with acks=1 a reader may come before the disk, and not see it here
			records := fmt.Sprintf("records %d %s", 1+r.IntN(4), []string{"", "gzip", "snappy", "lz4", "zstd"}[r.IntN(5)])
			say(name("Produce", version(7, 12)), fmt.Sprintf(`{"Acks": -1, "TimeoutMillis": 10000, %s}`, one(fmt.Sprintf("%q: %q", "Records", strings.TrimSpace(records))))+"\n")
		case 12, 13:
			records := fmt.Sprintf("records %d producer %d %d %d", 1+r.IntN(2), 1+r.IntN(2), r.IntN(8)/7, r.IntN(6))
			say(name("Produce", version(7, 12)), fmt.Sprintf(`{"Acks": -1, "TimeoutMillis": 10000, %s}`, one(fmt.Sprintf("%q: %q", "Records", records)))+"\n")
		case 6, 7:
			say(name("Fetch", version(4, 12)), fmt.Sprintf(`{"ReplicaID": -1, "MaxWaitMillis": 0, "MinBytes": 1, "MaxBytes": %d, "IsolationLevel": %d, %s}`, 1+r.IntN(2000), r.IntN(2), one(fmt.Sprintf(`"FetchOffset": %d, "PartitionMaxBytes": %d`, r.IntN(8), 1+r.IntN(500))))+"\n")
		case 8:
			say(name("ListOffsets", version(1, 10)), fmt.Sprintf(`{"ReplicaID": -1, %s}`, one(fmt.Sprintf(`"Timestamp": %d`, -1-r.IntN(3))))+"\n")
		case 9:
			say(name("DeleteRecords", version(0, 2)), fmt.Sprintf(`{"TimeoutMillis": 10000, %s}`, one(fmt.Sprintf(`"Offset": %d`, r.IntN(6)-1)))+"\n")
		case 10:
			topic = "kept"
			say(name("OffsetCommit", version(2, 9)), fmt.Sprintf(`{"Group": "shared", "Generation": -1, %s}`, one(fmt.Sprintf(`"Offset": %d`, r.IntN(6))))+"\n")
			say(name("OffsetFetch", version(2, 7)), `{"Group": "shared", "Topics": null}`+"\n")
		case 11:
			say(name("IncrementalAlterConfigs", version(0, 1)), fmt.Sprintf(`{"Resources": [{"ResourceType": 2, "ResourceName": %q, "Configs": [{"Name": "retention.ms", "Op": %d, "Value": "%d"}]}]}`, topic, r.IntN(3), 10_000_000+r.IntN(1000))+"\n")
		}
	}
	for _, e := range book {
		e.asked = strings.HasPrefix(e.line, "ask ")
	}
	return book
}
