package znode

import (
	"bytes"
	"encoding/json"
	"strconv"

	"moldau/internal/invariant"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// The payloads of nodes, as Kafka 1.1 writes them. Fields stand in the order in which it does.
type (
	clusterID struct {
		Version string `json:"version"` // a string, unlike all others
		ID      string `json:"id"`
	}
	controller struct {
		Version   int          `json:"version"`
		BrokerID  kafka.NodeID `json:"brokerid"`
		Timestamp string       `json:"timestamp"`
	}
	registration struct {
		Protocols map[string]string `json:"listener_security_protocol_map"`
		Endpoints []string          `json:"endpoints"`
		Rack      *string           `json:"rack,omitempty"`
		JMXPort   int               `json:"jmx_port"`
		Host      *string           `json:"host"` // null: no listener is PLAINTEXT
		Timestamp string            `json:"timestamp"`
		Port      int               `json:"port"`
		Version   int               `json:"version"`
	}
	assignment struct {
		Version    int                      `json:"version"`
		Partitions map[int32][]kafka.NodeID `json:"partitions"`
	}
	settings struct {
		Version int               `json:"version"`
		Config  map[string]string `json:"config"`
	}
	partitionList struct {
		Version    int                `json:"version"`
		Partitions []partitionPayload `json:"partitions"`
	}
	partitionPayload struct {
		Topic     string         `json:"topic"`
		Partition int32          `json:"partition"`
		Replicas  []kafka.NodeID `json:"replicas,omitempty"` // of a reassignment
	}
	producerIDBlock struct {
		Version int          `json:"version"`
		Broker  kafka.NodeID `json:"broker"`
		Start   int64        `json:"block_start,string"`
		End     int64        `json:"block_end,string"` // included
	}
	aclList struct {
		Version int        `json:"version"`
		Acls    []aclEntry `json:"acls"`
	}
	aclEntry struct {
		Principal  string `json:"principal"`
		Permission string `json:"permissionType"`
		Operation  string `json:"operation"`
		Host       string `json:"host"`
	}
)

// payload is a node's data. Nothing in it is escaped for the sake of web pages.
func payload(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	invariant.Check(err == nil, "encode a node's data: %v", err)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// The two payloads that there are most of are written by hand: a new leader of the tree writes all of them in one turn.

// assignmentOf is the data of a topic.
func assignmentOf(topic *metadata.Topic) []byte {
	b := make([]byte, 0, 40+24*topic.Partitions.Len())
	b = append(b, `{"version":1,"partitions":{`...)
	first := true
	for partition, p := range topic.Partitions.All() {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, '"')
		b = strconv.AppendInt(b, int64(partition), 10)
		b = append(b, `":`...)
		b = appendIDs(b, p.Replicas)
	}
	return append(b, "}}"...)
}

// stateOf is the data of a partition's state. The controller's epoch is first for withoutEpoch.
func stateOf(p *metadata.PartitionRegistration, controllerEpoch kafka.Epoch) []byte {
	b := make([]byte, 0, 80+6*len(p.ISR))
	b = append(b, `{"controller_epoch":`...)
	b = strconv.AppendInt(b, int64(controllerEpoch), 10)
	b = append(b, `,"leader":`...)
	b = strconv.AppendInt(b, int64(p.Leader), 10)
	b = append(b, `,"version":1,"leader_epoch":`...)
	b = strconv.AppendInt(b, int64(p.LeaderEpoch), 10)
	b = append(b, `,"isr":`...)
	return append(appendIDs(b, p.ISR), '}')
}

func appendIDs(b []byte, ids []kafka.NodeID) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return append(b, ']')
}

// withoutEpoch cuts the epoch of the controller off a partition's state; all else it returns as it is.
func withoutEpoch(data []byte) []byte {
	if rest, ok := bytes.CutPrefix(data, []byte(`{"controller_epoch":`)); ok {
		if i := bytes.IndexByte(rest, ','); i >= 0 {
			return rest[i:]
		}
	}
	return data
}

// read parses a node's data, or what a client wants it to be. Members that nobody knows are passed over, as Kafka does.
func read[T any](data []byte) (v T, ok bool) {
	err := json.Unmarshal(data, &v)
	return v, err == nil
}
