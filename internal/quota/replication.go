package quota

import (
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// Replication is a node's throttles on the copying of replicas.
type Replication struct {
	o        ReplicationOptions
	Leader   *Throttle // what leaders here send to followers
	Follower *Throttle // what followers here fetch
	Dirs     *Bucket   // what replicas here copy from one directory to another
}

// ReplicationOptions is what a node's throttles need to know.
type ReplicationOptions struct {
	NodeID kafka.NodeID
	Rates  Rates
	// Lists tells which replicas the settings of a topic throttle, as "partition:broker" or "*" for all.
	Lists func(topic string, overrides map[string]string) (leaders, followers []string)
	Now   func() time.Time
}

// Rates are bytes per second.
type Rates struct {
	Leader   int64 // leader.replication.throttled.rate
	Follower int64 // follower.replication.throttled.rate
	Dirs     int64 // replica.alter.log.dirs.io.max.bytes.per.second
}

// NewReplication returns throttles that cover no replica yet: Apply tells which.
func NewReplication(o ReplicationOptions) *Replication {
	return &Replication{
		o: o, Leader: newThrottle(o.Rates.Leader, o.Now), Follower: newThrottle(o.Rates.Follower, o.Now), Dirs: NewBucket(o.Rates.Dirs, o.Now),
	}
}

// SetRates changes the rates.
func (r *Replication) SetRates(rates Rates) {
	r.Leader.bucket.SetRate(rates.Leader)
	r.Follower.bucket.SetRate(rates.Follower)
	r.Dirs.SetRate(rates.Dirs)
}

// Apply takes the lists of throttled replicas from the topics' settings.
func (r *Replication) Apply(delta *metadata.Delta, image *metadata.Image) {
	for _, t := range delta.DeletedTopics() {
		r.topic(image, t.Name)
	}
	for _, resource := range delta.ChangedConfigs() {
		if resource.Type == metadata.ConfigTopic {
			r.topic(image, resource.Name)
		}
	}
}

func (r *Replication) topic(image *metadata.Image, name string) {
	var leaders, followers []string
	if set := image.Configs.Topic(name); len(set) > 0 {
		leaders, followers = r.o.Lists(name, set)
	}
	r.Leader.cover(name, leaders, r.o.NodeID)
	r.Follower.cover(name, followers, r.o.NodeID)
}
