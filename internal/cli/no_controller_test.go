package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TestNoController: with most controllers gone the tools that look show what the brokers know, soon, and say what is missing.
func TestNoController(t *testing.T) {
	c, all := startNodes(t, 3)
	c.want(t, "Created topic t.\n", "", "topics", "--create", "--topic", "t", "--partitions", "2", "--replication-factor", "3")
	admin := kadm.NewClient(c.kgo(t))
	eventually(t, "everybody follows", func() bool {
		topics, err := admin.ListTopics(t.Context(), "t")
		return err == nil && !slices.ContainsFunc(topics["t"].Partitions.Sorted(), func(p kadm.PartitionDetail) bool { return len(p.ISR) < 3 })
	})
	for _, n := range all.nodes[1:] {
		if err := n.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// If it was the one that leads, it does so until it has not heard of the others for an election timeout.
	eventually(t, "the last controller has given up", func() bool {
		code, _, _ := c.run("", "metadata-quorum", "describe", "--status")
		return code != exitOK
	})
	for _, tool := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"topics", "--describe", "--topic", "t"}, exitOK, "moldau: warning: no controller is active"},
		{[]string{"metadata-quorum", "describe", "--status"}, exitFailure, "--bootstrap-controller"},
		{[]string{"doctor"}, exitFailure, "no controller is active"},
	} {
		began := time.Now()
		code, out, errs := c.run("", tool.args[0], tool.args[1:]...)
		if code != tool.code || !strings.Contains(out+errs, tool.says) || strings.Contains(errs, "not Kafka") {
			t.Errorf("%v: exit code %d\n%s%s", tool.args, code, out, errs)
		}
		if tool.args[0] != "metadata-quorum" && !strings.Contains(out, "2") {
			t.Errorf("%v does not show the partitions:\n%s", tool.args, out)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%v took %v", tool.args, took)
		}
	}
}
