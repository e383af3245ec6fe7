package zookeeper

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/test/harness"
)

// TestServerPropertiesOfOld: the file that came with each release, its comments left out, starts a node that serves both protocols. What a
// line does not do is said, once, with the number of the line, and nothing in it is unknown. Only ports and folders are other ones.
func TestServerPropertiesOfOld(t *testing.T) {
	said := map[string][]string{
		"0.8.2.2":  {"zookeeper.connection.timeout.ms"},
		"0.10.2.2": {"zookeeper.connection.timeout.ms"},
		"0.11.0.3": {"transaction.state.log.replication.factor", "transaction.state.log.min.isr", "zookeeper.connection.timeout.ms"},
		"1.1.1":    {"transaction.state.log.replication.factor", "transaction.state.log.min.isr", "zookeeper.connection.timeout.ms"},
	}
	for _, version := range []string{"0.8.2.2", "0.10.2.2", "0.11.0.3", "1.1.1"} {
		t.Run(version, func(t *testing.T) {
			ports := harness.FreePorts(t, 4)
			n := &harness.Node{
				Properties: filepath.Join("testdata", "server-"+version+".properties"), Dir: filepath.Join(t.TempDir(), "data"),
				Addr: fmt.Sprintf("127.0.0.1:%d", ports[0]), Controller: fmt.Sprintf("127.0.0.1:%d", ports[1]), HTTP: fmt.Sprintf("127.0.0.1:%d", ports[2]),
			}
			zookeeper := fmt.Sprintf("127.0.0.1:%d", ports[3])
			n.Spawn(t, "--override", "log.dirs="+n.Dir, "--override", fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://%s", n.Addr, n.Controller),
				"--override", "http.listeners=http://"+n.HTTP, "--override", "zookeeper.listeners="+zookeeper)
			n.WaitReady(t, time.Minute)
			about := regexp.MustCompile(`config: \S+\.properties:[0-9]+: (\S+) (.*)`)
			var keys []string
			for _, match := range about.FindAllStringSubmatch(n.Log(), -1) {
				keys = append(keys, match[1])
				if strings.Contains(match[2], "knows") {
					t.Errorf("a key of Kafka's own is unknown: %s", match[0])
				}
			}
			slices.Sort(keys)
			want := slices.Sorted(slices.Values(said[version]))
			if !slices.Equal(keys, want) {
				t.Errorf("said of %q, want %q", keys, want)
			}
			tree, _, err := zk.Connect([]string{zookeeper}, 10*time.Second, zk.WithLogger(quiet{}))
			if err != nil {
				t.Fatal(err)
			}
			defer tree.Close()
			eventually(t, func() error {
				data, _, err := tree.Get("/brokers/ids/0")
				if err == nil && !bytes.Contains(data, []byte(n.Addr)) {
					err = fmt.Errorf("/brokers/ids/0: %s", data)
				}
				return err
			})
			client, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(-1), kgo.DefaultProduceTopic("first"))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if err := client.ProduceSync(context.Background(), kgo.StringRecord("hello world")).FirstErr(); err != nil {
				t.Errorf("produce: %v", err)
			}
			if _, err := os.Stat(filepath.Join(n.Dir, "first-0", "00000000000000000000.log")); err != nil {
				t.Error(err)
			}
		})
	}
}
