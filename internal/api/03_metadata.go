package api

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// metadata answers Metadata: brokers, topics and where their leaders are. Mirrors KafkaApis.handleTopicMetadataRequest
// and KRaftMetadataCache.getTopicMetadata.
func (a *API) metadata(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.MetadataRequest)
	resp := kmsg.NewPtrMetadataResponse()
	all := req.Topics == nil || req.Version == 0 && len(req.Topics) == 0
	if !all && req.Version < 12 && slices.ContainsFunc(req.Topics, namedByID) {
		// Versions 10 and 11 have the field, but the answer cannot do without a name (KAFKA-14039).
		for _, t := range req.Topics {
			topic := kmsg.NewMetadataResponseTopic()
			topic.ErrorCode, topic.Topic, topic.TopicID = kerr.InvalidRequest.Code, named(t.Topic), t.TopicID
			resp.Topics = append(resp.Topics, topic)
		}
		return r.Answer(resp)
	}
	faults := a.createMissing(r, req, all)
	image := a.o.Image()
	key := wholeKey{r.Conn.Listener(), req.Version, req.IncludeTopicAuthorizedOperations, req.IncludeClusterAuthorizedOperations}
	if all {
		if frame := a.whole.of(image, key); frame != nil {
			return server.Reply{Response: &encodedAnswer{r.Header.CorrelationID, frame}}
		}
	}
	a.describe(resp, image, r.Conn.Listener(), req, all, faults)
	if !all {
		return r.Answer(resp)
	}
	frame := encode(r, resp)
	a.whole.keep(image, key, frame)
	return server.Reply{Response: &encodedAnswer{r.Header.CorrelationID, frame}}
}

// describe fills in what image says of the cluster and of the topics that are asked for.
func (a *API) describe(resp *kmsg.MetadataResponse, image *metadata.Image, listener string, req *kmsg.MetadataRequest, all bool, faults map[string]error) {
	v := view{image: image, listener: listener, version: req.Version}
	for id, b := range image.Cluster.Brokers() {
		if e, _ := b.Endpoint(v.listener); v.reaches(b) {
			broker := kmsg.NewMetadataResponseBroker()
			broker.NodeID, broker.Host, broker.Port, broker.Rack = id, e.Host, int32(e.Port), b.Rack
			resp.Brokers = append(resp.Brokers, broker)
		}
	}
	resp.ClusterID = &a.o.ClusterID
	resp.ControllerID = a.controllerFor(image, v.listener)
	if all {
		for _, t := range image.Topics.All() {
			resp.Topics = append(resp.Topics, v.topic(t))
		}
	} else {
		found := make(map[kafka.TopicID]bool, len(req.Topics))
		for _, t := range unique(req.Topics) {
			topic := v.find(t, faults)
			if topic.ErrorCode == 0 {
				if found[topic.TopicID] {
					continue // named, and asked for by id too
				}
				found[topic.TopicID] = true
			}
			resp.Topics = append(resp.Topics, topic)
		}
	}
	if req.IncludeTopicAuthorizedOperations {
		for i := range resp.Topics {
			if resp.Topics[i].Topic != nil { // of those that there are not, too
				resp.Topics[i].AuthorizedOperations = topicOperations
			}
		}
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations
	}
}

func namedByID(t kmsg.MetadataRequestTopic) bool {
	return t.Topic == nil || t.TopicID != [16]byte{}
}

// named is a name for versions in which it cannot be null.
func named(name *string) *string {
	if name == nil {
		return new(string)
	}
	return name
}

// unique drops topics that were asked for before, by id or by name.
func unique(topics []kmsg.MetadataRequestTopic) []kmsg.MetadataRequestTopic {
	type identity struct {
		id   kafka.TopicID
		name string
	}
	seen := make(map[identity]bool, len(topics))
	out := topics[:0:0]
	for _, t := range topics {
		k := identity{id: t.TopicID}
		if k.id.IsZero() && t.Topic != nil {
			k.name = *t.Topic
		}
		if !seen[k] {
			seen[k] = true
			out = append(out, t)
		}
	}
	return out
}

// createMissing creates the topics that are asked for by name and do not exist, if client and node allow that, and
// waits for it. It returns why some could not be.
func (a *API) createMissing(r *server.Request, req *kmsg.MetadataRequest, all bool) map[string]error {
	allowed := req.AllowAutoTopicCreation || req.Version < 4 // older clients cannot say that they do not want it
	if all || !allowed || !a.o.AutoCreateTopics {
		return nil
	}
	var faults map[string]error
	image := a.o.Image()
	for _, t := range unique(req.Topics) {
		if t.Topic == nil || t.TopicID != [16]byte{} || *t.Topic == metadataTopic {
			continue
		}
		if _, ok := image.Topics.ByName(*t.Topic); ok {
			continue
		}
		err := checkTopicName(*t.Topic)
		if err == nil {
			ctx, cancel := a.within(r, 0)
			if err = a.autoCreate(ctx, *t.Topic); err == nil {
				a.awaitOpen(ctx, *t.Topic)
			}
			cancel()
		}
		if err != nil {
			if faults == nil {
				faults = make(map[string]error)
			}
			faults[*t.Topic] = err
		}
	}
	return faults
}

// openPatience is how long the maker of partitions is kept waiting for their logs.
const openPatience = time.Second

// awaitOpen waits a moment for the logs of a topic that has just been made, so that the client, which is about to write to
// it, does not have to be sent away once.
func (a *API) awaitOpen(ctx context.Context, topic string) {
	t, ok := a.o.Image().Topics.ByName(topic)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	for id := range t.Partitions.All() {
		p, err := a.o.Replicas.Partition(kafka.TopicPartition{Topic: topic, Partition: id})
		if err != nil {
			continue // on another node, or this one has not come to it yet
		}
		select {
		case <-p.Opened():
		case <-ctx.Done():
			return
		}
	}
}

// controllerFor is where admin clients are sent: to this broker if it can be reached, because brokers forward to the
// controller, else to any that can.
func (a *API) controllerFor(image *metadata.Image, listener string) kafka.NodeID {
	first := kafka.NoNode
	for id, b := range image.Cluster.Brokers() {
		if _, ok := b.Endpoint(listener); !ok || b.Fenced {
			continue
		}
		if id == a.o.NodeID {
			return id
		}
		if first == kafka.NoNode {
			first = id
		}
	}
	return first
}

// view is an image as a client of one listener sees it.
type view struct {
	image    *metadata.Image
	listener string
	version  int16 // of Metadata
}

// find answers for one topic that was asked for.
func (v view) find(t kmsg.MetadataRequestTopic, faults map[string]error) kmsg.MetadataResponseTopic {
	byID := t.TopicID != [16]byte{}
	if byID {
		if topic, ok := v.image.Topics.ByID(t.TopicID); ok {
			return v.topic(topic)
		}
	} else if t.Topic != nil {
		if topic, ok := v.image.Topics.ByName(*t.Topic); ok {
			return v.topic(topic)
		}
	}
	answer := kmsg.NewMetadataResponseTopic()
	switch {
	case byID || t.Topic == nil:
		answer.TopicID = t.TopicID
		answer.ErrorCode = kerr.UnknownTopicID.Code
	default:
		answer.Topic = t.Topic
		answer.IsInternal = internal(*t.Topic)
		err := faults[*t.Topic]
		if err == nil {
			err = missing(*t.Topic)
		}
		answer.ErrorCode = wire.Code(err)
	}
	return answer
}

func (v view) topic(t *metadata.Topic) kmsg.MetadataResponseTopic {
	answer := kmsg.NewMetadataResponseTopic()
	answer.Topic, answer.TopicID, answer.IsInternal = &t.Name, t.ID, internal(t.Name)
	answer.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, t.Partitions.Len())
	for id, p := range t.Partitions.All() {
		answer.Partitions = append(answer.Partitions, v.partition(id, p))
	}
	return answer
}

func (v view) partition(id int32, p *metadata.PartitionRegistration) kmsg.MetadataResponseTopicPartition {
	answer := kmsg.NewMetadataResponseTopicPartition()
	answer.Partition, answer.Leader, answer.LeaderEpoch = id, p.Leader, p.LeaderEpoch
	answer.Replicas, answer.ISR, answer.OfflineReplicas = p.Replicas, p.ISR, v.offline(p)
	if v.version == 0 {
		// Version 0 cannot tell which replicas are offline: it leaves them out and says so with an error.
		answer.Replicas, answer.ISR = v.reachable(p.Replicas), v.reachable(p.ISR)
		if len(answer.Replicas) < len(p.Replicas) || len(answer.ISR) < len(p.ISR) {
			answer.ErrorCode = kerr.ReplicaNotAvailable.Code
		}
	}
	leader, ok := v.image.Cluster.Broker(p.Leader)
	switch {
	case !ok:
		answer.Leader, answer.ErrorCode = kafka.NoNode, kerr.LeaderNotAvailable.Code
	case !v.reaches(leader):
		answer.Leader, answer.ErrorCode = kafka.NoNode, kerr.LeaderNotAvailable.Code
		if v.version >= 6 {
			answer.ErrorCode = kerr.ListenerNotFound.Code
		}
	}
	return answer
}

// reaches tells whether a client can go to a broker, and so whether the answer lists it.
func (v view) reaches(b *metadata.Broker) bool {
	_, ok := b.Endpoint(v.listener)
	return ok && !b.Fenced
}

func (v view) reachable(ids []kafka.NodeID) []kafka.NodeID {
	var out []kafka.NodeID
	for _, id := range ids {
		if b, ok := v.image.Cluster.Broker(id); ok && v.reaches(b) {
			out = append(out, id)
		}
	}
	return out
}

// offline are the replicas that cannot serve: their broker or its directory is not there.
func (v view) offline(p *metadata.PartitionRegistration) []kafka.NodeID {
	var out []kafka.NodeID
	for i, id := range p.Replicas {
		b, ok := v.image.Cluster.Broker(id)
		if !ok || !v.reaches(b) || !onlineIn(b, p.Directories[i]) {
			out = append(out, id)
		}
	}
	return out
}

// onlineIn reports whether a broker has a directory online. Of a directory that is not known yet the best is assumed
// (ClusterImage and BrokerRegistration.hasOnlineDir).
func onlineIn(b *metadata.Broker, dir kafka.DirID) bool {
	if dir == kafka.DirUnassigned || dir == kafka.DirMigrating || len(b.LogDirs) == 0 {
		return true
	}
	return slices.Contains(b.LogDirs, dir)
}
