package zkconsumer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"
)

// broker is the data of /brokers/ids/ID, versions 1 to 5.
type broker struct {
	Host      string            `json:"host"`
	Port      int               `json:"port"`
	Endpoints []string          `json:"endpoints"`
	Protocols map[string]string `json:"listener_security_protocol_map"`
}

// Brokers are the addresses of the brokers that are registered, by id, for clients that talk PLAINTEXT.
func (t *Tree) Brokers() ([]string, error) { return t.brokers(t.Children) }

func (t *Tree) brokers(list func(string) ([]string, error)) ([]string, error) {
	ids, err := list("/brokers/ids")
	if err != nil {
		return nil, err
	}
	var addresses []string
	for _, id := range ids {
		data, _, err := t.Get("/brokers/ids/" + id)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var b broker
		if err := json.Unmarshal(data, &b); err != nil {
			return nil, fmt.Errorf("/brokers/ids/%s: %w", id, err)
		}
		if address := b.address(); address != "" {
			addresses = append(addresses, address)
		}
	}
	return addresses, nil
}

// address is that of the first listener without TLS or SASL, or "".
func (b broker) address() string {
	for _, endpoint := range b.Endpoints {
		name, address, _ := strings.Cut(endpoint, "://")
		if protocol, ok := b.Protocols[name]; ok && protocol == "PLAINTEXT" || !ok && name == "PLAINTEXT" {
			return address
		}
	}
	if len(b.Endpoints) > 0 || b.Host == "" {
		return ""
	}
	return net.JoinHostPort(b.Host, strconv.Itoa(b.Port))
}
