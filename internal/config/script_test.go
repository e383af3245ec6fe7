package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"moldau/internal/kafka"
)

// The scripts in testdata/scripts show what a file leads to, messages included:
//
//	load [override=(k=v,…)] [here=(host,…)]  a file → its faults, or its warnings and "ok"; lines "export NAME=value" are its environment
//	listeners                  the listeners of the last file
//	cluster                    who the node of the last file is, and whom it forms a cluster with
//	topic                      settings of a topic, one a line → what differs from a topic without any, or what is wrong
//	describe [topic|group|metrics|brokers]  names, one a line (or name=value) → their rows in DescribeConfigs
//	dynamic                    dynamic settings, "all key=value" or "own key=value" a line → what is wrong with them, or "ok";
//	                           the good ones stay in force
//	check (topic|group|metrics|broker|brokers)  name=value, one a line → what is wrong with them together, or "ok"
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		last := Default()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "load":
				src := Source{File: "server.properties"}
				for line := range strings.Lines(d.Input) {
					if variable, ok := strings.CutPrefix(line, "export "); ok {
						src.Env = append(src.Env, strings.TrimSpace(variable))
					} else {
						src.Text = append(src.Text, line...)
					}
				}
				for _, arg := range d.CmdArgs {
					if arg.Key == "override" {
						src.Overrides = append(src.Overrides, arg.Vals...)
					}
				}
				for _, arg := range d.CmdArgs {
					if arg.Key == "here" {
						src.Here = func(host string) bool { return slices.Contains(arg.Vals, host) }
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
			case "cluster":
				return clusterText(last.Node())
			case "topic":
				return topicText(last, pairs(d.Input))
			case "describe":
				switch {
				case d.HasArg("topic"):
					return entriesText(last.DescribeTopic(pairs(d.Input)), d.Input)
				case d.HasArg("group"):
					return entriesText(last.DescribeGroup(pairs(d.Input)), d.Input)
				case d.HasArg("metrics"):
					return entriesText(last.DescribeClientMetrics(pairs(d.Input)), d.Input)
				case d.HasArg("brokers"):
					return entriesText(last.DescribeBrokers(), d.Input)
				}
				return entriesText(last.DescribeBroker(), d.Input)
			case "dynamic":
				own, all := pairs(linesOf(d.Input, "own ")), pairs(linesOf(d.Input, "all "))
				next, idle, errs := last.Dynamic(own, all)
				last = next
				for _, sentence := range idle {
					errs = append(errs, errors.New("warning: "+sentence))
				}
				return errorsText(errs...)
			case "check":
				values := pairs(d.Input)
				return errorsText(map[string]func() error{
					"broker": func() error { return last.CheckBroker(values, last.all) }, "brokers": func() error { return last.CheckBrokers(values) },
					"group": func() error { return last.CheckGroup(values, last.all) }, "metrics": func() error { return CheckClientMetrics(values) },
				}[d.CmdArgs[0].Key]())
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
				return ""
			}
		})
	})
}

// linesOf returns the lines that begin with a word, without it.
func linesOf(input, word string) string {
	var out strings.Builder
	for line := range strings.Lines(input) {
		if rest, ok := strings.CutPrefix(line, word); ok {
			out.WriteString(rest)
			if !strings.HasSuffix(rest, "\n") {
				out.WriteString("\n")
			}
		}
	}
	return out.String()
}

func errorsText(errs ...error) string {
	var out strings.Builder
	for _, err := range errs {
		if err != nil {
			out.WriteString(err.Error() + "\n")
		}
	}
	if out.Len() == 0 {
		return "ok\n"
	}
	return out.String()
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
	for _, li := range slices.Concat(n.Network.Listeners, n.HTTP.Listeners, n.ZooKeeper.Listeners) {
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

func clusterText(n Node) string {
	id := fmt.Sprintf("node %d", n.ID)
	if n.ID == kafka.NoNode {
		id = fmt.Sprintf("node from %d on", n.LeastID)
	}
	if n.MadeUpID {
		id += " (made up)"
	}
	var roles []string
	if n.Roles.Broker {
		roles = append(roles, "broker")
	}
	if n.Roles.Controller {
		roles = append(roles, "controller")
	}
	out := fmt.Sprintf("%s is %s\n", id, strings.Join(roles, " and "))
	for _, a := range n.Quorum.Bootstrap {
		out += fmt.Sprintf("bootstrap %s\n", a)
	}
	for _, v := range n.Quorum.Voters {
		out += fmt.Sprintf("voter %d %s\n", v.ID, v.Address)
	}
	if n.ZooKeeper.Chroot != "" {
		out += "chroot " + n.ZooKeeper.Chroot + "\n"
	}
	return out
}

func topicText(c *Config, overrides map[string]string) string {
	if err := c.CheckTopic(overrides); err != nil {
		return err.Error() + "\n"
	}
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
	return map[Origin]string{
		OriginTopic: "topic", OriginBroker: "broker", OriginDefaultBroker: "brokers", OriginStatic: "static", OriginDefault: "default",
		OriginGroup: "group", OriginClientMetrics: "metrics",
	}[o]
}
