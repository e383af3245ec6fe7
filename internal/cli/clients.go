package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// defaultHTTP is where a node without a configuration serves metrics, and what it knows of its clients.
const defaultHTTP = "127.0.0.1:9644"

// seenClient is what nodes tell of one client, in /clients.
type seenClient struct {
	ID       string                 `json:"clientId"`
	Software string                 `json:"software,omitempty"`
	Version  string                 `json:"version,omitempty"`
	Address  string                 `json:"lastAddress,omitempty"`
	LastSeen time.Time              `json:"lastSeen"`
	APIs     map[string]versionSpan `json:"apis"`
	TooOld   []string               `json:"tooOldForKafka4,omitempty"`
	Produced conversionCost         `json:"convertedProduced"`
	Fetched  conversionCost         `json:"convertedFetched"`
}

type versionSpan struct {
	Lowest  int `json:"lowest"`
	Highest int `json:"highest"`
}

type conversionCost struct {
	Batches int64   `json:"batches"`
	Records int64   `json:"records"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// clientsCommand shows who connects, and what old clients cost. Kafka has no such tool.
func (a *app) clientsCommand() *cobra.Command {
	var nodes []string
	var old bool
	c := &clusterFlags{}
	cmd := &cobra.Command{
		Use:     "clients",
		Short:   "Show which clients connect, in which versions, and what old ones cost",
		Example: "  moldau clients\n  moldau clients --old --http node1:9644,node2:9644\n  moldau clients --output json",
		Args:    usage(cobra.NoArgs),
		Version: toolVersion(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.output != "text" && c.output != "json" {
				return &failure{exitUsage, fmt.Errorf("--output %s: want text or json", c.output)}
			}
			return a.clients(cmd.Context(), c, nodes, old)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&nodes, "http", []string{defaultHTTP}, "the http.listeners of the nodes to ask, as `host:port,...`")
	flags.BoolVar(&old, "old", false, "only clients that Apache Kafka 4 would turn away, or whose records are converted")
	flags.StringVar(&c.output, "output", "text", "how results look: `text or json`")
	return cmd
}

func (a *app) clients(ctx context.Context, c *clusterFlags, nodes []string, old bool) error {
	var all []seenClient
	for _, node := range nodes {
		seen, err := askClients(ctx, node)
		if err != nil {
			return err
		}
		all = append(all, seen...)
	}
	all = mergeClients(all)
	if old {
		all = slices.DeleteFunc(all, func(s seenClient) bool {
			return len(s.TooOld) == 0 && s.Produced.Batches == 0 && s.Fetched.Batches == 0
		})
	}
	return a.result(c, all, func(w io.Writer) { printClients(w, all, time.Now()) })
}

// askClients asks one node whom it has seen.
func askClients(ctx context.Context, node string) ([]seenClient, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	address := strings.TrimSuffix(strings.TrimPrefix(node, "http://"), "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/clients", nil)
	if err != nil {
		return nil, &failure{exitUsage, fmt.Errorf("--http %s: want host:port", node)}
	}
	away := func(why string) error {
		return &failure{exitUnreachable, fmt.Errorf("ask %s for its clients: %s\nGive --http the address that the node's http.listeners names", address, why)}
	}
	resp, err := http.DefaultClient.Do(req)
	var way *url.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, away("took the connection and then did not answer")
	case errors.As(err, &way):
		return nil, away(reason(way.Err))
	case err != nil:
		return nil, away(err.Error())
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, away("it answers " + resp.Status + ", which no node of this version does")
	}
	var seen []seenClient
	if err := json.NewDecoder(resp.Body).Decode(&seen); err != nil {
		return nil, fmt.Errorf("the answer of %s: %w", address, errors.Join(err, errors.New("is that a node of this version?")))
	}
	return seen, nil
}

// mergeClients makes one of those that several nodes have seen.
func mergeClients(all []seenClient) []seenClient {
	slices.SortStableFunc(all, compareClients)
	merged := all[:0]
	for _, s := range all {
		if n := len(merged); n > 0 && compareClients(merged[n-1], s) == 0 {
			merged[n-1].add(s)
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

func compareClients(a, b seenClient) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Software, b.Software), cmp.Compare(a.Version, b.Version))
}

func (s *seenClient) add(other seenClient) {
	if other.LastSeen.After(s.LastSeen) {
		s.LastSeen, s.Address = other.LastSeen, other.Address
	}
	for api, span := range other.APIs {
		if known, ok := s.APIs[api]; ok {
			span = versionSpan{min(span.Lowest, known.Lowest), max(span.Highest, known.Highest)}
		}
		s.APIs[api] = span
	}
	for _, api := range other.TooOld {
		if !slices.Contains(s.TooOld, api) {
			s.TooOld = append(s.TooOld, api)
		}
	}
	s.Produced.add(other.Produced)
	s.Fetched.add(other.Fetched)
}

func (c *conversionCost) add(other conversionCost) {
	c.Batches += other.Batches
	c.Records += other.Records
	c.Bytes += other.Bytes
	c.Seconds += other.Seconds
}

func printClients(w io.Writer, all []seenClient, now time.Time) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CLIENT\tSOFTWARE\tLAST SEEN\tFROM\tTOO OLD FOR KAFKA 4\tCONVERTED IN\tCONVERTED OUT")
	for _, s := range all {
		software := strings.TrimSpace(s.Software + " " + s.Version)
		fmt.Fprintf(t, "%s\t%s\t%s ago\t%s\t%s\t%s\t%s\n", orDash(printable(s.ID)), orDash(software), max(now.Sub(s.LastSeen), 0).Truncate(time.Second), orDash(s.Address),
			orDash(strings.Join(s.TooOld, ", ")), s.Produced, s.Fetched)
	}
	_ = t.Flush()
}

// String is what it is to a person.
func (c conversionCost) String() string {
	if c.Batches == 0 {
		return "-"
	}
	return fmt.Sprintf("%d records, %s, %.3f s", c.Records, byteText(c.Bytes), c.Seconds)
}

// printable is a name without what would upset a terminal: it is the client's to choose.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, name)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
