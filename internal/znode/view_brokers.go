package znode

import (
	"net"
	"strconv"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// Sessions that own views. Their top byte is one that no client's session has.
const (
	brokerSessions     int64 = -1 << 56 // 0xff…: the rest is the broker's epoch, which no other registration has
	controllerSessions int64 = -2 << 56 // 0xfe…: the rest is the controller's epoch
)

// protocolNames are Kafka's names of SecurityProtocol, by number.
var protocolNames = [...]string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}

func brokerPath(id kafka.NodeID) string { return "/brokers/ids/" + strconv.Itoa(int(id)) }

// broker lists the registration of a broker, unless it is fenced, when Kafka 1.1 would not hear of it. Host and port are
// for clients of 0.8, which read nothing else, and are those of the first listener that they can speak to.
func (l *viewList) broker(b *metadata.Broker, nowMs int64) {
	if b.Fenced {
		return
	}
	r := registration{
		Protocols: map[string]string{}, Endpoints: []string{}, Rack: b.Rack, JMXPort: -1,
		Timestamp: strconv.FormatInt(nowMs, 10), Port: -1, Version: 4,
	}
	for _, e := range b.Endpoints {
		if e.SecurityProtocol < 0 || int(e.SecurityProtocol) >= len(protocolNames) {
			continue // of a Kafka to come; those of 1.1 could not read it
		}
		r.Protocols[e.Name] = protocolNames[e.SecurityProtocol]
		r.Endpoints = append(r.Endpoints, e.Name+"://"+net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))))
		if r.Host == nil && e.SecurityProtocol == 0 {
			r.Host, r.Port = &e.Host, int(e.Port)
		}
	}
	l.ephemeral(brokerPath(b.ID), payload(r), brokerSessions|b.Epoch)
}

// controllerViews lists who decides, and since how many elections.
func (v *Views) controllerViews(l *viewList, s Source) {
	v.controller, v.epoch = s.Controller, s.Image.Epoch
	if s.Controller != kafka.NoNode {
		data := payload(controller{Version: 1, BrokerID: s.Controller, Timestamp: strconv.FormatInt(s.NowMs, 10)})
		l.ephemeral("/controller", data, controllerSessions|int64(uint32(s.Image.Epoch)))
	}
	l.node("/controller_epoch", strconv.AppendInt(nil, int64(max(s.Image.Epoch, 0)), 10))
}

// producerIDs lists the block of producer ids that was handed out last. The image does not say to whom.
func (l *viewList) producerIDs(ids metadata.ProducerIDs) {
	const path, block = "/latest_producer_id_block", 1000 // ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE
	if ids.Next == 0 {
		l.folder(path)
		return
	}
	l.node(path, payload(producerIDBlock{Version: 1, Broker: kafka.NoNode, Start: max(ids.Next-block, 0), End: ids.Next - 1}))
}
