package config

// Row declares one key: everything that is known about it, and the only place where it is known.
type Row struct {
	Name     string
	Type     Type
	Default  string // as it would stand in a file
	Unset    bool   // there is no default: the key has no value until somebody gives one
	Check    Check
	Scope    Scope
	Dynamic  Dynamic // brokers' keys only: all others can always be changed
	Standing Standing
	Why      string // for every Standing but Used: completes the sentence that a user reads
	Hidden   bool   // left out of DescribeConfigs and of the documents unless set (Kafka's "internal")
	Synonyms []Link // keys of topics and groups only: the brokers' keys that give the default, highest precedence first
	Text     string // one sentence for the documents and for DescribeConfigs
}

// Link is a broker's key that supplies the default of a topic's key.
type Link struct {
	Name   string
	Factor int64 // what a value is multiplied by to get the unit of the topic's key
}

const (
	minute = 60 * 1000
	hour   = 60 * minute
)

// Scope is what a key is a property of.
type Scope int8

// The scopes of keys.
const (
	BrokerScope        Scope = iota // a process, in its file
	TopicScope                      // a topic
	GroupScope                      // a group
	ClientMetricsScope              // a subscription to metrics that clients push
)

// Dynamic is how a broker's key may change while it runs (KIP-226).
type Dynamic int8

// The ways in which a broker's key may change.
const (
	ReadOnly    Dynamic = iota // in the file, followed by a restart
	PerBroker                  // for one broker
	ClusterWide                // for one broker or for all
)

// Standing is what moldau does with a key.
type Standing int8

// The standings of keys.
const (
	Used    Standing = iota // it has its effect
	Later                   // accepted without effect: it belongs to something that is not served yet, see Why
	Inert                   // accepted without effect: there is nothing here that it could steer, see Why
	Refused                 // any value but the default is an error, because ignoring it would do harm, see Why
	Removed                 // Kafka has dropped it: accepted without effect, not described, see Why
)

// because fills in what the later rows of a file all wait for.
func because(feature string, rows []Row) []Row {
	for i := range rows {
		if rows[i].Standing == Later && rows[i].Why == "" {
			rows[i].Why = feature
		}
	}
	return rows
}
