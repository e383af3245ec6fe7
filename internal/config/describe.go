package config

// Origin tells where a value comes from. The numbers are those of DescribeConfigs (KIP-226).
type Origin int8

// The origins that DescribeConfigs knows.
const (
	OriginTopic         Origin = 1
	OriginBroker        Origin = 2 // dynamic, this broker
	OriginDefaultBroker Origin = 3 // dynamic, all brokers
	OriginStatic        Origin = 4 // file or command line
	OriginDefault       Origin = 5
	OriginBrokerLogger  Origin = 6
	OriginClientMetrics Origin = 7
	OriginGroup         Origin = 8
)

// Entry is one row of a DescribeConfigs answer.
type Entry struct {
	Name      string
	Value     *string // nil = not set, or sensitive
	Type      Type
	Origin    Origin
	ReadOnly  bool
	Sensitive bool
	Text      string
	Synonyms  []Synonym // highest precedence first
}

// Synonym is one of the settings that decide an Entry's value.
type Synonym struct {
	Name   string
	Value  *string // nil = sensitive
	Origin Origin
}

// Type is the type of a value. The numbers are those of DescribeConfigs (KIP-569).
type Type int8

// The types of values.
const (
	Bool     Type = 1
	String   Type = 2
	Int      Type = 3
	Short    Type = 4
	Long     Type = 5
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)
