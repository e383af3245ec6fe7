package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/storage"
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

// moreFiles is how a node is allowed so many.
func moreFiles() string {
	return fmt.Sprintf("`ulimit -n %d` before the start, or LimitNOFILE=%[1]d in the unit of systemd", wantFiles)
}

func (d *doctor) limits() {
	n, ok := openFilesLimit()
	switch {
	case !ok:
	case n < wantFiles:
		d.add("warning", fmt.Sprintf("this shell allows %d open files to a process", n), moreFiles())
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
		took, err := syncTime(disk, filepath.Join(dir, ".doctor"))
		d.syncs("log.dirs: "+dir, took, err)
	}
}

// maxSync is how long a disk may take to keep 4 KiB before who waits for acks=all feels it.
const maxSync = 20 * time.Millisecond

// syncTime is the time that a disk takes to keep 4 KiB, the middle one of five tries, in a file that goes again.
func syncTime(disk vfs.FS, path string) (time.Duration, error) {
	f, err := disk.Open(path, vfs.Create|vfs.Truncate)
	if err != nil {
		return 0, err
	}
	var took []time.Duration
	for i := range 5 {
		start := time.Now()
		if _, err = f.WriteAt(make([]byte, 4096), int64(i)*4096); err == nil {
			err = f.Sync()
		}
		if err != nil {
			break
		}
		took = append(took, time.Since(start))
	}
	if err = errors.Join(err, f.Close(), disk.Remove(path)); err != nil {
		return 0, err
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

func (d *doctor) syncs(what string, took time.Duration, err error) {
	switch {
	case err != nil:
		d.add("error", fmt.Sprintf("%s: cannot be written: %v", what, err), "let the user who runs the node write there, or look at the disk and the kernel's log")
	case took > maxSync:
		d.add("warning", fmt.Sprintf("%s: keeping 4 KiB takes %v, which everybody waits for who asks for acks=all", what, took.Round(time.Millisecond)), "take a faster disk, or one that nobody else keeps busy")
	default:
		d.add("ok", fmt.Sprintf("%s: keeping 4 KiB takes %v", what, took.Round(10*time.Microsecond)), "")
	}
}

// space judges what is left of a disk.
func (d *doctor) space(what string, free, total int64) {
	if total <= 0 || free < 0 {
		return
	}
	text := fmt.Sprintf("%s: %s of %s are free", what, byteText(free), byteText(total))
	switch floor := storage.FloorBytes(total); {
	case free < floor:
		d.add("error", fmt.Sprintf("%s, less than the %s below which a node refuses writes", text, byteText(floor)),
			"make room: lower retention.ms or retention.bytes of the largest topics (`moldau log-dirs --describe`), or enlarge the disk; writes are taken again by themselves")
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

// reach dials an address as a client would, and asks what every client asks first.
func (d *doctor) reach(ctx context.Context, cl *client, address, who, advice string) {
	start := time.Now()
	if fault := cl.unanswered(ctx, address); fault != "" {
		d.add("error", fmt.Sprintf("%s (%s): %s", address, who, fault), advice)
		return
	}
	d.add("ok", fmt.Sprintf("%s (%s) answers, in %v", address, who, time.Since(start).Round(10*time.Microsecond)), "")
}

// unanswered says what is wrong at an address; "" if it answers as Kafka does.
func (cl *client) unanswered(ctx context.Context, address string) string {
	way := &dialed{seeds: []string{address}, timeout: cl.dialed.timeout}
	one, err := kgo.NewClient(slices.Concat(cl.config.opts,
		[]kgo.Opt{kgo.ClientID("moldau"), kgo.DisableClientMetrics(), kgo.SeedBrokers(address), kgo.Dialer(way.dial)})...)
	if err != nil {
		return err.Error()
	}
	defer one.Close()
	ctx, cancel := context.WithTimeout(ctx, cl.config.requestTimeout)
	defer cancel()
	_, err = one.SeedBrokers()[0].Request(ctx, kmsg.NewPtrApiVersionsRequest())
	way.mu.Lock()
	defer way.mu.Unlock()
	switch {
	case err == nil:
		return ""
	case way.failed[address] != nil:
		return reason(way.failed[address])
	}
	return silence(err)
}

func (d *doctor) partitions(ctx context.Context, cl *client) error {
	names, err := cl.topicsMatching(ctx, "", false, false)
	if err != nil || len(names) == 0 {
		return err
	}
	topics, err := cl.describe(ctx, names, 2000, false)
	if err != nil && !errors.Is(err, errNoController) { // clock tells
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
	if errors.Is(err, errNoController) {
		d.add("error", "no controller is active, or it does not answer: nothing can be created or changed, and no leader replaced",
			"start controllers until a majority runs, and see their logs; `moldau metadata-quorum describe --status --bootstrap-controller host:port,...` asks them")
	}
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
