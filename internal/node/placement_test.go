package node

import (
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// TestControllerLearnsPlaces: of a broker with several directories the metadata come to say in which each replica lies,
// also one that was there before the controller knew (KIP-858).
func TestControllerLearnsPlaces(t *testing.T) {
	disk := vfs.NewMem()
	n := start(t, options(t, strings.Replace(base, "log.dirs=/disk", "log.dirs=/disk,/more", 1), disk))
	defer stop(t, n)
	var dirs []kafka.DirID
	for _, d := range n.store.Directories() {
		dirs = append(dirs, d.ID())
	}
	createTopic(t, n, "orders")
	limit := time.After(20 * time.Second)
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for {
		var told []kafka.DirID
		topic, _ := n.loader.Image().Topics.ByName("orders")
		for partition, reg := range topic.Partitions.All() {
			p, err := n.replicas.Partition(kafka.TopicPartition{Topic: "orders", Partition: partition})
			if err != nil {
				t.Fatal(err)
			}
			if dir := reg.Directory(1); slices.Contains(dirs, dir) && p.Dir() != nil && p.Dir().ID() == dir {
				told = append(told, dir)
			}
		}
		if len(told) == 2 {
			if told[0] == told[1] {
				t.Error("both replicas are in one directory")
			}
			return
		}
		select {
		case <-pause.C:
		case <-limit:
			t.Fatalf("the metadata know of %d places", len(told))
		}
	}
}
