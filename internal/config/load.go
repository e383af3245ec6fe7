package config

// Source is the text that a Config is read from, lowest precedence first.
type Source struct {
	File      string   // name for messages; "" = no file
	Text      []byte   // the content of that file
	Overrides []string // "key=value" from the command line
}

// Config is a checked configuration. The zero value is not usable: Load or Default makes one.
type Config struct {
	set map[string]setting // by row name, as given
}

type setting struct{ raw string }

// Warning is something that a person should know and that does not keep the node from starting.
type Warning struct {
	File string
	Line int // 0 = not from a file
	Key  string
	Text string
}
