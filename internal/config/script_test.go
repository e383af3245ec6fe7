package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// The scripts in testdata/scripts show what a file leads to, messages included:
//
//	load [override=(k=v,…)]    a file → its faults, or its warnings and "ok"
//	listeners                  the listeners of the last file
//	topic                      settings of a topic, one a line → what differs from a topic without any, or what is wrong
//	describe [topic]           names, one a line (for a topic also name=value) → their rows in DescribeConfigs
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		last := Default()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "load":
				src := Source{File: "server.properties", Text: []byte(d.Input)}
				for _, arg := range d.CmdArgs {
					if arg.Key == "override" {
						src.Overrides = append(src.Overrides, arg.Vals...)
					}
				}
				if d.HasArg("none") {
					src.File, src.Text = "", nil
				}
				config, warnings, err := Load(src)
				var out strings.Builder
				for _, w := range warnings {
					fmt.Fprintf(&out, "warning: %s\n", w)
				}
				if err != nil {
					return out.String() + err.Error() + "\n"
				}
				last = config
				return out.String() + "ok\n"
			case "listeners":
				return listenersText(last.Node())
			case "topic":
				return topicText(last, pairs(d.Input))
			case "describe":
				if d.HasArg("topic") {
					return entriesText(last.DescribeTopic(pairs(d.Input)), d.Input)
				}
				return entriesText(last.DescribeBroker(), d.Input)
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
				return ""
			}
		})
	})
}

func pairs(input string) map[string]string {
	settings := map[string]string{}
	for line := range strings.Lines(input) {
		if name, raw, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			settings[name] = raw
		}
	}
	return settings
}

func listenersText(n Node) string {
	var out strings.Builder
	for _, li := range append(slices.Clone(n.Network.Listeners), n.HTTP.Listeners...) {
		fmt.Fprintf(&out, "%s %s %s tells %s", li.Name, li.Address, li.Protocol, li.Advertised)
		if li.Controller {
			out.WriteString(" controller")
		}
		if li.Name == n.Network.InterBroker {
			out.WriteString(" between-brokers")
		}
		if li.MayMove {
			out.WriteString(" may-move")
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func topicText(c *Config, overrides map[string]string) string {
	changed, err := c.Topic(overrides)
	if err != nil {
		return err.Error() + "\n"
	}
	before, _ := Default().Topic(nil)
	was := strings.Fields(strings.Trim(fmt.Sprintf("%+v", before), "{}"))
	var out strings.Builder
	for i, field := range strings.Fields(strings.Trim(fmt.Sprintf("%+v", changed), "{}")) {
		if field != was[i] {
			out.WriteString(field + "\n")
		}
	}
	return out.String()
}

func entriesText(entries []Entry, input string) string {
	var out strings.Builder
	for line := range strings.Lines(input) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "=")
		i := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == name })
		if i < 0 {
			fmt.Fprintf(&out, "%s is not described\n", name)
			continue
		}
		e := entries[i]
		fmt.Fprintf(&out, "%s=%s %s %s", e.Name, valueText(e.Value), e.Type, originText(e.Origin))
		if e.ReadOnly {
			out.WriteString(" read-only")
		}
		if e.Sensitive {
			out.WriteString(" sensitive")
		}
		for _, s := range e.Synonyms {
			fmt.Fprintf(&out, "\n  %s %s=%s", originText(s.Origin), s.Name, valueText(s.Value))
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func valueText(v *string) string {
	if v == nil {
		return "<null>"
	}
	return *v
}

func originText(o Origin) string {
	return map[Origin]string{OriginTopic: "topic", OriginStatic: "static", OriginDefault: "default"}[o]
}
