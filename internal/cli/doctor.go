package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/vfs"
)

// finding is one thing that doctor looked at.
type finding struct {
	Level  string `json:"level"` // ok, warning or error
	What   string `json:"what"`
	Advice string `json:"advice,omitempty"` // what to change
}

// doctorCommand looks for what is wrong with a cluster and this machine. Kafka has no such tool.
func (a *app) doctorCommand() *cobra.Command {
	var file string
	var local bool
	cmd, c := a.tool("doctor", "Look for what is wrong with a cluster, its addresses, disks and settings, and say what to change",
		"  moldau doctor\n  moldau doctor --bootstrap-server kafka.example.com:9092\n  moldau doctor --local --config config/server.properties", nil)
	cmd.Flags().StringVar(&file, "config", "", "check this server.properties `file` and the directories it names, too")
	cmd.Flags().BoolVar(&local, "local", false, "look only at this machine, not for a cluster")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d := &doctor{}
		d.limits()
		if file != "" {
			d.config(a, file)
		}
		var err error
		if !local {
			err = a.on(cmd.Context(), c, d.cluster)
		}
		if err != nil {
			d.add("error", err.Error(), "")
		}
		return a.diagnosis(c, d.found, exitCode(err))
	}
	return cmd
}

// diagnosis prints what was found. An error among it is the tool's own failure.
func (a *app) diagnosis(c *clusterFlags, found []finding, code int) error {
	wrong := 0
	for _, f := range found {
		if f.Level == "error" {
			wrong++
		}
	}
	err := a.result(c, found, func(w io.Writer) {
		for _, f := range found {
			fmt.Fprintf(w, "%-8s %s\n", f.Level, strings.ReplaceAll(f.What, "\n", "\n         "))
			if f.Advice != "" {
				fmt.Fprintf(w, "         → %s\n", f.Advice)
			}
		}
	})
	if err == nil && wrong > 0 {
		err = &failure{max(code, exitFailure), fmt.Errorf("%d of %d checks failed", wrong, len(found))}
	}
	return err
}

type doctor struct{ found []finding }

func (d *doctor) add(level, what, advice string) {
	d.found = append(d.found, finding{level, what, advice})
}

// wantFiles is how many open files a node of some thousand partitions and connections is at ease with.
const wantFiles = 65536

func (d *doctor) limits() {
	n, ok := openFilesLimit()
	switch {
	case !ok:
	case n < wantFiles:
		d.add("warning", fmt.Sprintf("this shell allows %d open files to a process", n), fmt.Sprintf("`ulimit -n %d` before the start, or LimitNOFILE=%d in the unit of systemd", wantFiles, wantFiles))
	default:
		d.add("ok", fmt.Sprintf("open files: %d allowed", n), "")
	}
}

// config checks a file of settings as a node would, and the directories that it names.
func (d *doctor) config(a *app, file string) {
	loaded, warnings, err := a.readConfig([]string{file}, nil)
	for _, w := range warnings {
		d.add("warning", w.String(), "")
	}
	if err != nil {
		d.add("error", err.Error(), "")
		return
	}
	d.add("ok", file+": every setting is known and in range", "")
	cfg := loaded.Node()
	if !cfg.Storage.FlushBeforeAck {
		d.add("warning", "log.flush.before.ack=false: an acknowledged record can be lost in a power cut", "remove that line unless replicas on other machines make up for it")
	}
	disk := vfs.NewOS()
	for _, dir := range cfg.Storage.Dirs {
		usage, err := disk.Usage(dir)
		if err != nil {
			d.add("warning", fmt.Sprintf("log.dirs: %s: %v", dir, err), "a start makes the directory if it may")
			continue
		}
		d.space("log.dirs: "+dir, usage.Free, usage.Total)
	}
}

// space judges what is left of a disk.
func (d *doctor) space(what string, free, total int64) {
	if total <= 0 || free < 0 {
		return
	}
	text := fmt.Sprintf("%s: %.1f of %.1f GiB are free", what, float64(free)/(1<<30), float64(total)/(1<<30))
	switch {
	case free < total/50:
		d.add("error", text, "make room now: lower retention.ms or retention.bytes of the largest topics (`moldau log-dirs --describe`), or enlarge the disk")
	case free < total/10:
		d.add("warning", text, "lower retention of the largest topics (`moldau log-dirs --describe`) or enlarge the disk")
	default:
		d.add("ok", text, "")
	}
}

// cluster looks at what a cluster says of itself.
func (d *doctor) cluster(ctx context.Context, cl *client) error {
	for _, seed := range cl.dialed.seeds {
		d.reach(ctx, cl, seed, "--bootstrap-server", "leave it out, or see why nothing answers there")
	}
	m, err := cl.admin.BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	d.add("ok", fmt.Sprintf("cluster %s has %d broker%s", m.Cluster, len(m.Brokers), plural(len(m.Brokers))), "")
	for _, b := range m.Brokers {
		address := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		d.reach(ctx, cl, address, fmt.Sprintf("advertised by broker %d", b.NodeID),
			"set advertised.listeners of that broker to an address that clients can reach, and look for a firewall")
		if ip := net.ParseIP(b.Host); b.Host == "localhost" || ip != nil && ip.IsLoopback() {
			d.add("warning", fmt.Sprintf("broker %d advertises %s: clients on other machines will dial themselves", b.NodeID, address),
				"nothing to do while all clients are on this machine; else set advertised.listeners")
		}
	}
	if err := d.partitions(ctx, cl); err != nil {
		return err
	}
	d.clock(ctx, cl)
	dirs, err := cl.admin.DescribeAllLogDirs(ctx, nil)
	if err != nil && len(dirs) == 0 {
		return err
	}
	for _, dir := range dirs.Sorted() {
		what := fmt.Sprintf("broker %d, %s", dir.Broker, dir.Dir)
		if dir.Err != nil {
			d.add("error", fmt.Sprintf("%s: %v", what, dir.Err), "see the log of that broker; replace the disk and start again")
			continue
		}
		d.space(what, dir.UsableBytes, dir.TotalBytes)
	}
	return nil
}

// reach dials an address as a client would.
func (d *doctor) reach(ctx context.Context, cl *client, address, who, advice string) {
	start := time.Now()
	conn, err := (&net.Dialer{Timeout: cl.dialed.timeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		d.add("error", fmt.Sprintf("%s (%s): %s", address, who, reason(err)), advice)
		return
	}
	conn.Close()
	d.add("ok", fmt.Sprintf("%s (%s) takes connections, in %v", address, who, time.Since(start).Round(10*time.Microsecond)), "")
}

func (d *doctor) partitions(ctx context.Context, cl *client) error {
	names, err := cl.topicsMatching(ctx, "", false, false)
	if err != nil || len(names) == 0 {
		return err
	}
	topics, err := cl.describe(ctx, names, 2000, false)
	if err != nil {
		return err
	}
	count, offline, behind, few := 0, 0, 0, 0
	for _, t := range topics {
		for _, p := range t.Partitions {
			count++
			switch {
			case p.Leader < 0:
				offline++
			case len(p.ISR) < t.minISR:
				few++
			case len(p.ISR) < len(p.Replicas)-len(p.Adding):
				behind++
			}
		}
	}
	d.add("ok", fmt.Sprintf("%d topic%s, %d partition%s", len(topics), plural(len(topics)), count, plural(count)), "")
	for _, state := range []struct {
		level, what, flag string
		n                 int
	}{
		{"error", "have no leader: nobody can write or read them", "unavailable-partitions", offline},
		{"error", "have fewer copies in sync than min.insync.replicas: acks=all is refused", "under-min-isr-partitions", few},
		{"warning", "lack a copy", "under-replicated-partitions", behind},
	} {
		if state.n > 0 {
			d.add(state.level, fmt.Sprintf("%d partitions %s", state.n, state.what), "start the brokers that are down; `moldau topics --describe --"+state.flag+"` lists them")
		}
	}
	return nil
}

// maxSkew is how far apart two clocks may be before timestamps and retention suffer.
const maxSkew = 5 * time.Second

// clock compares the controller's clock with this machine's, where the controller tells its own.
func (d *doctor) clock(ctx context.Context, cl *client) {
	before := time.Now()
	q, err := cl.quorum().state(ctx)
	if err != nil {
		return
	}
	for _, v := range q.Voters {
		if v.Status == "Leader" && v.LastFetch > 0 {
			d.skew(before, time.UnixMilli(v.LastFetch))
		}
	}
}

func (d *doctor) skew(here, there time.Time) {
	if apart := there.Sub(here).Abs(); apart > maxSkew {
		d.add("warning", fmt.Sprintf("the controller's clock and this machine's are %v apart", apart.Round(time.Second)), "run an NTP client on both: timestamps, retention and --time lookups go by these clocks")
		return
	}
	d.add("ok", "the controller's clock agrees with this machine's", "")
}
