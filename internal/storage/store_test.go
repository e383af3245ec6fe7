package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// records returns one batch of n records, as a producer sends it: an uncompressed batch with empty keys and values.
func records(n int) []byte { return testBatch(n) }

func options(fs vfs.FS, dirs ...string) Options {
	return Options{FS: fs, Dirs: dirs, NodeID: 1, Now: time.Now, FlushBeforeAck: true}
}

// run opens a Store that is ready for logs.
func run(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := OpenDirectories(o)
	must(t, err)
	must(t, s.Format("cluster"))
	must(t, s.Start())
	return s
}

func open(t testing.TB, s *Store, topic string, n byte) *Log {
	t.Helper()
	l, err := s.Open(tp(topic, 0), id(n), kafka.DirUnassigned, commitlog.DefaultConfig())
	must(t, err)
	return l
}

// syncWatch hears of the syncs of one log.
type syncWatch struct {
	l    *Log
	mu   sync.Mutex
	cond *sync.Cond
	end  kafka.Offset
	errs []error
}

func watchSync(l *Log) *syncWatch {
	w := &syncWatch{l: l}
	w.cond = sync.NewCond(&w.mu)
	l.OnSynced(func(end kafka.Offset, err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil {
			w.errs = append(w.errs, err)
		}
		w.end = max(w.end, end)
		w.cond.Broadcast()
	})
	return w
}

// wait returns when all below end is synced, or with the error.
func (w *syncWatch) wait(end kafka.Offset) error {
	Hurry(w.l)
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.end < end && len(w.errs) == 0 {
		w.cond.Wait()
	}
	if len(w.errs) > 0 {
		return w.errs[0]
	}
	return nil
}

func appendTo(t testing.TB, l *Log, n int) commitlog.Appended {
	t.Helper()
	a, err := l.Append(records(n), commitlog.AppendOptions{LeaderEpoch: 1})
	must(t, err)
	l.AppendDone()
	return a
}

func TestDirectoriesKeepTheirIdentity(t *testing.T) {
	fs := vfs.NewMem()
	s, err := OpenDirectories(options(fs, "/a", "/b"))
	must(t, err)
	if id, ok := s.ClusterID(); ok {
		t.Fatalf("unformatted directories belong to cluster %s", id)
	}
	must(t, s.Format("Some-Cluster_id=1"))
	ids := []kafka.DirID{s.Directories()[0].ID(), s.Directories()[1].ID()}
	if ids[0] == ids[1] || ids[0].IsZero() {
		t.Fatalf("directory ids %v", ids)
	}
	must(t, s.Start())
	must(t, s.Stop(true))

	// A new directory joins; the old ones stay who they are.
	s, err = OpenDirectories(options(fs, "/a", "/new", "/b"))
	must(t, err)
	if id, ok := s.ClusterID(); !ok || id != "Some-Cluster_id=1" {
		t.Fatalf("cluster id %q %v", id, ok)
	}
	if err := s.Format("other"); err == nil {
		t.Fatal("formatted for another cluster")
	}
	must(t, s.Format("Some-Cluster_id=1"))
	if d := s.Directories(); d[0].ID() != ids[0] || d[2].ID() != ids[1] || d[1].ID().IsZero() {
		t.Fatal("ids changed")
	}
	must(t, s.Start())
	must(t, s.Stop(true))
	text, err := vfs.ReadFile(fs, "/a/meta.properties")
	must(t, err)
	lines := strings.Split(string(text), "\n")
	want := []string{`cluster.id=Some-Cluster_id\=1`, "directory.id=" + ids[0].String(), "node.id=1", "version=1", ""}
	if lines[0] != "#" || lines[1][0] != '#' || !slices.Equal(lines[2:], want) {
		t.Fatalf("meta.properties is %q", text)
	}
}

func TestKeptNodeID(t *testing.T) {
	fs := vfs.NewMem()
	for dir, text := range map[string]string{"/broken": "version=9\n", "/good": "version=1\nnode.id=1003\n"} {
		must(t, fs.MkdirAll(dir))
		must(t, vfs.WriteFileAtomic(fs, filepath.Join(dir, propertiesFile), []byte(text)))
	}
	if id, ok := KeptNodeID(fs, []string{"/missing", "/broken", "/good"}); !ok || id != 1003 {
		t.Errorf("got %d, %v", id, ok)
	}
	if id, ok := KeptNodeID(fs, []string{"/missing", "/broken"}); ok || id != kafka.NoNode {
		t.Errorf("got %d, %v", id, ok)
	}
}

func TestDirectoriesOfSomebodyElse(t *testing.T) {
	a, b := kafka.NewUUID(), kafka.NewUUID()
	meta := func(cluster, node string, dir kafka.DirID) string {
		return "version=1\ncluster.id=" + cluster + "\nnode.id=" + node + "\ndirectory.id=" + dir.String() + "\n"
	}
	for name, c := range map[string]struct{ a, b, want string }{
		"another node":     {meta("c", "7", a), "", "set node.id=7"},
		"two clusters":     {meta("c", "1", a), meta("d", "1", b), "belongs to cluster c, but /b to cluster d"},
		"a copy":           {meta("c", "1", a), meta("c", "1", a), "one is a copy of the other"},
		"ZooKeeper's":      {"version=0\nbroker.id=1\n", "", "metadata in ZooKeeper"},
		"a later version":  {"version=2\n", "", "version=2, want 1"},
		"no node id":       {"version=1\ncluster.id=c\n", "", "node.id= is not a node id"},
		"a reserved id":    {meta("c", "1", kafka.DirLost), "", "reserved id"},
		"a bad id":         {"version=1\nnode.id=1\ndirectory.id=x\n", "", `directory.id: "x"`},
		"unreadable lines": {"\x00\x01\\u00zz", "", "meta.properties"},
	} {
		fs := vfs.NewMem()
		for dir, text := range map[string]string{"/a": c.a, "/b": c.b} {
			must(t, fs.MkdirAll(dir))
			if text != "" {
				must(t, vfs.WriteFileAtomic(fs, filepath.Join(dir, propertiesFile), []byte(text)))
			}
		}
		_, err := OpenDirectories(options(fs, "/a", "/b"))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that says %q", name, err, c.want)
			continue
		}
		// The locks are free again.
		for _, dir := range []string{"/a", "/b"} {
			lock, err := fs.Lock(filepath.Join(dir, lockFile))
			must(t, err)
			must(t, lock.Close())
		}
	}
}

func TestDirectoryInUse(t *testing.T) {
	fs := vfs.NewMem()
	s := run(t, options(fs, "/a"))
	if _, err := OpenDirectories(options(fs, "/b", "/a")); err == nil || !strings.Contains(err.Error(), "/a is in use by another process") {
		t.Fatalf("second start: %v", err)
	}
	must(t, s.Stop(true))
	must(t, run(t, options(fs, "/b", "/a")).Stop(true))
	if _, err := OpenDirectories(options(fs, "/a", "/a/")); err == nil {
		t.Fatal("one directory twice")
	}
}

func TestPartitionLiesTwice(t *testing.T) {
	fs := vfs.NewMem()
	for _, dir := range []string{"/a/orders-0", "/b/orders-0"} {
		must(t, fs.MkdirAll(dir))
		must(t, commitlog.WritePartitionMetadata(fs, dir, id(1)))
	}
	if _, err := OpenDirectories(options(fs, "/a", "/b")); err == nil || !strings.Contains(err.Error(), "orders-0 lies in /a and in /b") {
		t.Fatalf("error %v", err)
	}
}

// TestTwoFoldersWithoutID: neither can prove anything. The one with records is used, and nothing with records is removed.
func TestTwoFoldersWithoutID(t *testing.T) {
	for with, want := range map[string][]string{"/a": {"/a"}, "/b": {"/b"}, "/a /b": {"/a", "/b"}, "": {"/b"}} {
		fs := vfs.NewMem()
		for _, dir := range []string{"/a", "/b"} {
			s := run(t, options(fs, dir))
			l := open(t, s, "orders", 1)
			if strings.Contains(with, dir) {
				appendTo(t, l, 3)
			}
			must(t, s.Stop(true))
			must(t, fs.Remove(dir+"/orders-0/partition.metadata"))
			must(t, fs.Remove(dir+"/"+journalFile))
		}
		s := run(t, options(fs, "/a", "/b"))
		must(t, s.Strays(func(kafka.TopicPartition, kafka.TopicID) bool { return true }))
		l := open(t, s, "orders", 1)
		if l.Dir().Path() != want[0] || with != "" && l.LogEnd() != 3 {
			t.Errorf("records in %q: the log in %s ends at %d", with, l.Dir().Path(), l.LogEnd())
		}
		must(t, s.Stop(true))
		for _, dir := range want[1:] {
			if got := folders(t, fs, dir); !slices.Equal(got, []string{"orders-0.*-stray"}) {
				t.Errorf("records in %q: %s has the folders %v", with, dir, got)
			}
		}
	}
}

// leave has a topic leave a partition with synced records in a directory, and a clean stop.
func leave(t *testing.T, fs vfs.FS, dir string, topic byte, records int) {
	t.Helper()
	s := run(t, options(fs, dir))
	l := open(t, s, "orders", topic)
	w := watchSync(l)
	appendTo(t, l, records)
	must(t, w.wait(kafka.Offset(records)))
	must(t, s.Stop(true))
}

// A topic is deleted and made again while the directory of its partition is offline: when that comes back the partition has
// two folders, and the metadata tell which is the older topic's.
func TestFolderOfOlderTopicComesBack(t *testing.T) {
	for _, younger := range []string{"/a", "/b"} {
		fs := vfs.NewMem()
		older := map[string]string{"/a": "/b", "/b": "/a"}[younger]
		for i, dir := range []string{older, younger} {
			leave(t, fs, dir, byte(i+1), 3+i)
		}
		s := run(t, options(fs, "/a", "/b"))
		must(t, s.Strays(func(_ kafka.TopicPartition, known kafka.TopicID) bool { return known == id(2) }))
		l := open(t, s, "orders", 2)
		if l.LogEnd() != 4 || l.Dir().Path() != younger {
			t.Errorf("the log in %s ends at %d", l.Dir().Path(), l.LogEnd())
		}
		must(t, s.Stop(true))
		if got := folders(t, fs, older); !slices.Equal(got, []string{"orders-0.*-stray"}) {
			t.Errorf("%s has the folders %v", older, got)
		}
	}
}

// The same, and the power fails when all of the younger topic's folder but the file with its id is on the disk.
func TestFolderOfOlderTopicComesBackAfterPowerCut(t *testing.T) {
	for younger, older := range map[string]string{"/a": "/b", "/b": "/a"} {
		mem := vfs.NewMem()
		leave(t, mem, older, 1, 3)
		s := run(t, options(mem, younger))
		open(t, s, "orders", 2)
		crashed := mem.KillClone()
		must(t, s.Stop(false))
		must(t, crashed.Remove(younger+"/orders-0/partition.metadata"))

		s = run(t, options(crashed, "/a", "/b"))
		must(t, s.Strays(func(_ kafka.TopicPartition, known kafka.TopicID) bool { return known == id(2) }))
		if l := open(t, s, "orders", 2); l.LogEnd() != 0 {
			t.Errorf("the log in %s ends at %d", l.Dir().Path(), l.LogEnd())
		}
		must(t, s.Stop(true))
		if got := folders(t, crashed, older); !slices.Contains(got, "orders-0.*-stray") {
			t.Errorf("%s has the folders %v", older, got)
		}
	}
}

// The same at every moment in which the power can fail, with records in the younger topic's folder; and the metadata may also know the
// older topic only: then its folder stays, and what the power cut has left of the other is kept for a person.
func TestTwinWithoutIDCrashEverywhere(t *testing.T) {
	states, unnamed := 0, 0
	for younger, older := range map[string]string{"/a": "/b", "/b": "/a"} {
		before := vfs.NewMem()
		leave(t, before, older, 1, 3)
		for at := int64(0); ; at++ {
			mem := before.KillClone()
			oneByOne := vfs.OnOp(vfs.OpOpen, younger[1:], errors.ErrUnsupported) // there is no sync that takes all at once
			fs := vfs.NewInject(mem, oneByOne, vfs.FromIndex(at, syscall.EIO))
			synced, tried := lifeOfYounger(options(fs, younger))
			for how, disk := range mem.Survivors(rand.New(rand.NewPCG(uint64(at), 1)), thorough(6, 12)) {
				states++
				what := fmt.Sprintf("younger in %s, crash at operation %d, %s", younger, at, how)
				stored, err := commitlog.ReadPartitionMetadata(disk, younger+"/orders-0")
				there, _ := vfs.Exists(disk, younger+"/orders-0/00000000000000000000.log")
				for topic, least := range map[byte]kafka.Offset{1: 3, 2: synced} {
					disk := disk.KillClone()
					s := run(t, options(disk, "/a", "/b"))
					must(t, s.Strays(func(_ kafka.TopicPartition, known kafka.TopicID) bool { return known.IsZero() || known == id(topic) }))
					l := open(t, s, "orders", topic)
					if l.LogEnd() < least || topic == 1 && (l.LogEnd() != 3 || l.Dir().Path() != older) || topic == 2 && l.LogEnd() > tried {
						t.Fatalf("%s: the log of topic %d in %s ends at %d, %d was synced", what, topic, l.Dir().Path(), l.LogEnd(), least)
					}
					must(t, s.Stop(true))
					if entry, statErr := disk.Stat(younger + "/orders-0"); topic == 1 && statErr == nil && entry.Dir {
						t.Fatalf("%s: the folder of topic 2 is in the way", what)
					}
				}
				if there && (err != nil || stored != id(2)) {
					unnamed++
				}
			}
			if fs.Count() <= at {
				break
			}
		}
	}
	if unnamed < 20 {
		t.Errorf("%d folders without an id after %d crashes", unnamed, states)
	}
	t.Logf("%d states, %d with a folder that has no id", states, unnamed)
}

// lifeOfYounger makes topic 2 and appends to it. It returns what was synced, and what was appended at most.
func lifeOfYounger(o Options) (synced, tried kafka.Offset) {
	s, err := OpenDirectories(o)
	if err != nil {
		return 0, 0
	}
	defer func() { _ = s.Stop(false) }()
	if errors.Join(s.Format("cluster"), s.Start()) != nil {
		return 0, 0
	}
	l, err := s.Open(tp("orders", 0), id(2), kafka.DirUnassigned, commitlog.DefaultConfig())
	if err != nil {
		return 0, 0
	}
	w := watchSync(l)
	for range 2 {
		tried += 2
		a, err := l.Append(records(2), commitlog.AppendOptions{})
		if err != nil {
			return synced, tried
		}
		l.AppendDone()
		if w.wait(a.Last+1) != nil {
			return synced, tried
		}
		synced = a.Last + 1
	}
	return synced, tried
}

// While a directory is offline nobody knows what lies there, so only partitions that are new are made elsewhere.
func TestNoEmptyLogInPlaceOfOneThatIsOffline(t *testing.T) {
	fs := vfs.NewMem()
	s := run(t, options(fs, "/b"))
	open(t, s, "orders", 1)
	must(t, s.Stop(true))
	disk := vfs.NewInject(fs, vfs.OnOp(vfs.OpList, "b", syscall.EIO))
	s = run(t, options(disk, "/a", "/b"))
	if _, err := s.Reopen(tp("orders", 0), id(1), kafka.DirUnassigned, commitlog.DefaultConfig()); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("a partition that may lie in /b: %v", err)
	}
	if _, err := s.Open(tp("new", 0), id(2), kafka.DirUnassigned, commitlog.DefaultConfig()); err != nil {
		t.Errorf("a new partition: %v", err)
	}
	must(t, s.Stop(true))
	s = run(t, options(fs, "/a", "/b"))
	if l, err := s.Reopen(tp("orders", 0), id(1), kafka.DirUnassigned, commitlog.DefaultConfig()); err != nil || l.Dir().Path() != "/b" {
		t.Errorf("after the directory has come back: %v", err)
	}
	must(t, s.Stop(true))
}

// TestReplacedDisk: a replica whose directory is gone for good begins anew in another one, but not while a directory that
// may be that one cannot be read; one that is there stays where it is, whatever directory the metadata name.
func TestReplacedDisk(t *testing.T) {
	fs := vfs.NewMem()
	gone := kafka.NewUUID()
	s := run(t, options(fs, "/a", "/b"))
	l, err := s.Reopen(tp("orders", 0), id(1), gone, commitlog.DefaultConfig())
	must(t, err)
	if !l.Made() {
		t.Error("the new log does not say that it is new")
	}
	must(t, s.Stop(true))
	s = run(t, options(fs, "/a", "/b"))
	again, err := s.Reopen(tp("orders", 0), id(1), gone, commitlog.DefaultConfig())
	must(t, err)
	if again.Made() || again.Dir().Path() != l.Dir().Path() {
		t.Errorf("found again in %s instead of %s, made %v", again.Dir().Path(), l.Dir().Path(), again.Made())
	}
	must(t, s.Stop(true))
	s = run(t, options(vfs.NewInject(fs, vfs.OnOp(vfs.OpList, "b", syscall.EIO)), "/a", "/b"))
	if _, err := s.Reopen(tp("other", 0), id(2), gone, commitlog.DefaultConfig()); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("while /b cannot be read: %v", err)
	}
	must(t, s.Stop(true))
}

func TestBrokenDirectoryIsOffline(t *testing.T) {
	broken := func(op vfs.Op) error {
		if strings.HasPrefix(op.Path, "/broken") {
			return syscall.EIO
		}
		return nil
	}
	s := run(t, options(vfs.NewInject(vfs.NewMem(), broken), "/broken", "/good"))
	if d := <-s.Failures(); d.Path() != "/broken" || d.Online() || !errors.Is(d.Err(), kerr.KafkaStorageError) {
		t.Fatalf("failed directory %s, %v", d.Path(), d.Err())
	}
	l := open(t, s, "a", 1)
	if l.Dir().Path() != "/good" {
		t.Fatal("opened in the broken directory")
	}
	must(t, s.Stop(true))
	all := func(vfs.Op) error { return syscall.EIO }
	if _, err := OpenDirectories(options(vfs.NewInject(vfs.NewMem(), all), "/x", "/y")); err == nil || !strings.Contains(err.Error(), "no log directory can be used") {
		t.Fatalf("nothing works, but the error is %v", err)
	}
}

func TestPlacement(t *testing.T) {
	s := run(t, options(vfs.NewMem(), "/a", "/b", "/c"))
	defer func() { must(t, s.Stop(true)) }()
	count := map[string]int{}
	for i := range byte(9) {
		count[open(t, s, fmt.Sprint("t", i), i).Dir().Path()]++
	}
	if count["/a"] != 3 || count["/b"] != 3 || count["/c"] != 3 {
		t.Fatalf("nine partitions were spread as %v", count)
	}
	b := s.Directories()[1]
	l, err := s.Open(tp("chosen", 0), id(50), b.ID(), commitlog.DefaultConfig())
	must(t, err)
	if l.Dir() != b {
		t.Fatal("the chosen directory was not taken")
	}
	if l, err = s.Open(tp("lost", 0), id(51), kafka.NewUUID(), commitlog.DefaultConfig()); err != nil || l.Dir() == b {
		t.Fatalf("for a directory that is gone the fullest was taken, or none: %v", err)
	}
}

// TestRestart: what was appended is there after a clean stop and after a kill, the mark tells one from the other, and the
// watermark and log start are remembered.
func TestRestart(t *testing.T) {
	for _, clean := range []bool{true, false} {
		fs := vfs.NewMem()
		s := run(t, options(fs, "/a"))
		if e := s.PreviousBrokerEpoch(); e != -1 {
			t.Fatalf("epoch %d before there was one", e)
		}
		must(t, s.SetBrokerEpoch(17))
		l := open(t, s, "orders", 1)
		w := watchSync(l)
		appendTo(t, l, 5)
		appendTo(t, l, 5)
		must(t, w.wait(10))
		l.SetHighWatermark(8)
		l.NoteChange()
		must(t, l.SetLogStart(3))
		must(t, s.Stop(clean))

		mark, err := vfs.ReadFile(fs, "/a/.kafka_cleanshutdown")
		if clean && string(mark) != `{"version":0,"brokerEpoch":17}` || clean != (err == nil) {
			t.Fatalf("clean=%v: mark %q, %v", clean, mark, err)
		}
		if clean {
			for name, want := range map[string]string{recoveryPointFile: "0\n1\norders 0 10\n", highWatermarkFile: "0\n1\norders 0 8\n", logStartFile: "0\n1\norders 0 3\n"} {
				text, err := vfs.ReadFile(fs, "/a/"+name)
				if err != nil || string(text) != want {
					t.Fatalf("%s holds %q, %v", name, text, err)
				}
			}
		}
		s = run(t, options(fs, "/a"))
		if e := s.PreviousBrokerEpoch(); e != 17 {
			t.Fatalf("clean=%v: previous epoch %d", clean, e)
		}
		if _, err := fs.Stat("/a/.kafka_cleanshutdown"); err == nil {
			t.Fatal("the mark is still there while the node runs")
		}
		l = open(t, s, "orders", 1)
		if !clean {
			if _, err := l.Sync(); err != nil { // as the syncer does by itself
				t.Fatal(err)
			}
		}
		if l.LogStart() != 3 || l.LogEnd() != 10 || l.SyncedEnd() != 10 || l.StoredHighWatermark() != 8 {
			t.Fatalf("clean=%v: start %d, end %d, synced %d, watermark %d", clean, l.LogStart(), l.LogEnd(), l.SyncedEnd(), l.StoredHighWatermark())
		}
		must(t, s.Stop(true))
	}
}

// TestJournalHearsOfEveryChange: not only of the first since the start.
func TestJournalHearsOfEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		s := run(t, options(fs, "/a"))
		l := open(t, s, "orders", 1)
		w := watchSync(l)
		for i := range int64(4) {
			appendTo(t, l, 1)
			must(t, w.wait(i+1))
			l.SetHighWatermark(i + 1)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if got := l.dir.journal.recall(l.tp, l.id); got.highWatermark != i+1 || got.recoveryPoint > i+1 {
				t.Fatalf("after record %d the journal says %+v", i, got)
			}
		}
		if _, err := fs.Stat("/a/" + highWatermarkFile); err != nil {
			t.Fatalf("the first change did not reach Kafka's checkpoint: %v", err)
		}
		j := l.dir.journal
		j.mu.Lock()
		old := j.written[1][0]
		j.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		text, err := vfs.ReadFile(fs, "/a/"+highWatermarkFile)
		must(t, err)
		if string(text) != "0\n1\norders 0 4\n" || fingerprint(text) == old {
			t.Fatalf("a minute later the checkpoint holds %q", text)
		}
		must(t, s.Stop(false))
	})
}

// TestRecoveryIsBounded: many logs, each with little after its recovery point, do not add up to more than the limit.
func TestRecoveryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		o := options(fs, "/a")
		o.RecoveryBytes = 20_000
		s := run(t, o)
		const partitions, each = 10, 4000
		for i := range byte(partitions) {
			l := open(t, s, fmt.Sprint("t", i), i)
			w := watchSync(l)
			for bytes := 0; bytes < each; {
				a := appendTo(t, l, 20)
				bytes += a.Bytes
				must(t, w.wait(a.Last+1))
			}
			time.Sleep(3 * time.Second)
			synctest.Wait()
		}
		must(t, s.Stop(false))
		s = run(t, o)
		var scanned int64
		for i := range byte(partitions) {
			l := open(t, s, fmt.Sprint("t", i), i)
			scanned += l.Size() * (l.LogEnd() - l.dir.journal.recall(l.tp, l.id).recoveryPoint) / l.LogEnd()
		}
		if scanned > o.RecoveryBytes {
			t.Fatalf("an unclean start read about %d bytes of %d", scanned, partitions*each)
		}
		must(t, s.Stop(true))
	})
}

// TestTruncationLowersTheRecoveryPointFirst: what is written after a cut must be scanned if the next stop is unclean.
func TestTruncationLowersTheRecoveryPointFirst(t *testing.T) {
	for _, cut := range []func(l *Log) error{
		func(l *Log) error { return l.Truncate(4) },
		func(l *Log) error { return l.TruncateFullyAt(3) },
	} {
		mem := vfs.NewMem()
		fs := vfs.NewInject(mem)
		s := run(t, options(fs, "/a"))
		cfg := commitlog.DefaultConfig()
		cfg.SegmentBytes = 200 // a segment that is full lets the recovery point move on
		l, err := s.Open(tp("orders", 0), id(1), kafka.DirUnassigned, cfg)
		must(t, err)
		w := watchSync(l)
		for range 10 {
			a := appendTo(t, l, 1)
			must(t, w.wait(a.Last+1))
		}
		must(t, l.dir.keeper.flush())
		if l.RecoveryPoint() <= 4 {
			t.Fatalf("recovery point %d proves nothing", l.RecoveryPoint())
		}
		// By the time the log is cut the journal knows.
		seen := false
		fs.SetRules(func(op vfs.Op) error {
			if op.Kind == vfs.OpTruncate && strings.HasSuffix(op.Path, ".log") || op.Kind == vfs.OpCreate || op.Kind == vfs.OpRename {
				seen = true
				j, _, err := openJournal(mem.CrashClone(rand.New(rand.NewPCG(1, 1)), 0), "/a")
				if err != nil {
					t.Error(err)
				} else if got := j.recall(l.tp, l.id); got.recoveryPoint > 4 || got.highWatermark > 4 {
					t.Errorf("%v while the journal says %+v", op, got)
				}
			}
			return nil
		})
		must(t, cut(l))
		fs.SetRules()
		if !seen {
			t.Fatal("nothing was cut")
		}
		must(t, s.Stop(true))
	}
}

// TestEpochWithoutFlush: with the page-cache promise only a clean stop keeps the epoch, and an epoch that was stored while
// the node flushed is forgotten.
func TestEpochWithoutFlush(t *testing.T) {
	fs := vfs.NewMem()
	s := run(t, options(fs, "/a"))
	must(t, s.SetBrokerEpoch(3))
	must(t, s.Stop(false))
	o := options(fs, "/a")
	o.FlushBeforeAck = false
	s = run(t, o)
	must(t, s.SetBrokerEpoch(4))
	must(t, s.Stop(false))
	s = run(t, o)
	if e := s.PreviousBrokerEpoch(); e != -1 {
		t.Fatalf("after a kill the epoch is %d", e)
	}
	must(t, s.SetBrokerEpoch(5))
	must(t, s.Stop(true))
	s = run(t, o)
	if e := s.PreviousBrokerEpoch(); e != 5 {
		t.Fatalf("after a clean stop the epoch is %d", e)
	}
	must(t, s.Stop(true))
}

// TestUnopenedFolderKeepsTheMarkAway: a clean stop after an unclean one vouches only for what was recovered in between.
func TestUnopenedFolderKeepsTheMarkAway(t *testing.T) {
	fs := vfs.NewMem()
	s := run(t, options(fs, "/a"))
	open(t, s, "one", 1)
	open(t, s, "two", 2)
	must(t, s.Stop(false))
	for _, opened := range []int{1, 2} {
		s = run(t, options(fs, "/a"))
		for i := range opened {
			open(t, s, []string{"one", "two"}[i], byte(i+1))
		}
		must(t, s.Stop(true))
		_, err := fs.Stat("/a/.kafka_cleanshutdown")
		if (err == nil) != (opened == 2) {
			t.Fatalf("%d of two folders opened: mark: %v", opened, err)
		}
	}
	// After a clean stop unopened folders are as good as they were.
	s = run(t, options(fs, "/a"))
	must(t, s.Stop(true))
	if _, err := fs.Stat("/a/.kafka_cleanshutdown"); err != nil {
		t.Fatalf("two clean stops in a row: %v", err)
	}
}

// TestKafkaWasHere: checkpoint files with content that we did not write win over the journal.
func TestKafkaWasHere(t *testing.T) {
	fs := vfs.NewMem()
	s := run(t, options(fs, "/a"))
	l := open(t, s, "orders", 1)
	w := watchSync(l)
	appendTo(t, l, 10)
	must(t, w.wait(10))
	must(t, s.Stop(true))
	at := func() offsets {
		j, found, err := openJournal(fs, "/a")
		must(t, err)
		defer func() { must(t, j.close()) }()
		if !found {
			t.Fatal("no journal")
		}
		return j.recall(tp("orders", 0), id(1))
	}
	if got := at(); got.recoveryPoint != 10 {
		t.Fatalf("after the stop the journal says %+v", got)
	}
	for _, c := range []struct {
		text string
		want int64
	}{
		{"0\n1\norders 0 4\n", 4},        // Kafka truncated and wrote on
		{"garbage", 4},                   // damage is not another program
		{"0\n1\norders 0 6\n", 6},        // Kafka again
		{"0\n1\norders 0 6\n \n", 6},     // damage that parses as nothing
		{"0\n2\norders 0 9\nx 0 1\n", 9}, // and again, with a partition more
	} {
		must(t, vfs.WriteFileAtomic(fs, "/a/"+recoveryPointFile, []byte(c.text)))
		s, err := OpenDirectories(options(fs, "/a"))
		must(t, err)
		must(t, s.Stop(false))
		if got := at(); got.recoveryPoint != c.want {
			t.Fatalf("checkpoint %q: recovery point %d, want %d", c.text, got.recoveryPoint, c.want)
		}
	}
	// A lost file, on the other hand, is just lost.
	must(t, fs.Remove("/a/"+recoveryPointFile))
	s, err := OpenDirectories(options(fs, "/a"))
	must(t, err)
	must(t, s.Stop(false))
	if got := at(); got.recoveryPoint != 9 {
		t.Fatalf("without checkpoint file: %+v", got)
	}
}

func TestFolderOfOlderTopic(t *testing.T) {
	fs := vfs.NewMem()
	s := run(t, options(fs, "/a"))
	l := open(t, s, "orders", 1)
	w := watchSync(l)
	appendTo(t, l, 4)
	must(t, w.wait(4))
	if _, err := s.Open(tp("orders", 0), id(2), kafka.DirUnassigned, commitlog.DefaultConfig()); err == nil {
		t.Fatal("opened under a second id while open")
	}
	must(t, s.Stop(true))
	s = run(t, options(fs, "/a"))
	l = open(t, s, "orders", 2)
	if l.LogEnd() != 0 {
		t.Fatalf("the new topic begins with %d records of the old one", l.LogEnd())
	}
	must(t, s.Stop(true))
	entries, err := fs.List("/a")
	must(t, err)
	if !slices.ContainsFunc(entries, func(e vfs.Entry) bool { return strings.HasSuffix(e.Name, "-stray") }) {
		t.Fatalf("the old folder is gone: %v", entries)
	}
	s = run(t, options(fs, "/a"))
	if l = open(t, s, "orders", 2); l.LogEnd() != 0 {
		t.Fatal("the new topic changed")
	}
	must(t, s.Stop(true))
}

// A topic that was deleted and made again shortly before a crash: the journal need not tell of the younger one yet, and tells of
// the older one no more, so that nobody takes the folder for that one's, without its partition.metadata neither.
func TestFolderOfYoungerTopic(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			disk := vfs.NewMem()
			s := run(t, options(disk, "/d"))
			older := open(t, s, "orders", 1)
			appendTo(t, older, 1)
			time.Sleep(2 * time.Second) // the journal has heard of it
			must(t, s.Delete(older))
			younger := open(t, s, "orders", 2)
			watch := watchSync(younger)
			end := appendTo(t, younger, 3).Last + 1
			must(t, watch.wait(end))
			after := disk.CrashClone(rand.New(rand.NewPCG(1, 1)), 0)
			must(t, s.Stop(true))

			if lost {
				must(t, after.Remove("/d/orders-0/partition.metadata"))
			}
			s = run(t, options(after, "/d"))
			must(t, s.Strays(func(_ kafka.TopicPartition, known kafka.TopicID) bool { return known.IsZero() || known == id(2) }))
			if got := open(t, s, "orders", 2).LogEnd(); got != end {
				t.Errorf("partition.metadata lost: %t. The younger topic ends at %d, acked was %d", lost, got, end)
			}
			must(t, s.Stop(true))
		})
	}
}

// A folder whose partition.metadata is lost is not that of a topic which was made when the older one of its name had been deleted:
// the journal remembers whose it is. Without the journal too nobody knows, and the name has to do.
func TestFolderOfOlderTopicWithoutID(t *testing.T) {
	for _, clean := range []bool{true, false} {
		for topic, want := range map[byte]kafka.Offset{1: 3, 2: 0} {
			synctest.Test(t, func(t *testing.T) {
				fs := vfs.NewMem()
				s := run(t, options(fs, "/a"))
				appendTo(t, open(t, s, "orders", 1), 3)
				time.Sleep(2 * time.Second) // the journal has heard of it
				must(t, s.Stop(clean))
				must(t, fs.Remove("/a/orders-0/partition.metadata"))
				nameless := fs.KillClone()
				must(t, nameless.Remove("/a/"+journalFile))

				ends := func(fs vfs.FS) kafka.Offset {
					s := run(t, options(fs, "/a"))
					must(t, s.Strays(func(_ kafka.TopicPartition, known kafka.TopicID) bool { return known.IsZero() || known == id(topic) }))
					end := open(t, s, "orders", topic).LogEnd()
					must(t, s.Stop(true))
					return end
				}
				if got := ends(fs); got != want {
					t.Errorf("clean=%t: the log of topic %d ends at %d, want %d", clean, topic, got, want)
				}
				if aside := slices.Contains(folders(t, fs, "/a"), "orders-0.*-stray"); aside != (topic == 2) {
					t.Errorf("clean=%t: for topic %d the older one's records were set aside: %t", clean, topic, aside)
				}
				if got := ends(nameless); got != 3 {
					t.Errorf("clean=%t: without a journal the log of topic %d ends at %d", clean, topic, got)
				}
			})
		}
	}
}

func TestStrays(t *testing.T) {
	fs := vfs.NewMem()
	s := run(t, options(fs, "/a"))
	for i, name := range []string{"kept", "deleted", "again", "open"} {
		open(t, s, name, byte(i))
	}
	must(t, s.Stop(false))
	must(t, fs.MkdirAll("/a/no-id-7"))
	s = run(t, options(fs, "/a"))
	open(t, s, "open", 3)
	var asked []string
	must(t, s.Strays(func(p kafka.TopicPartition, topic kafka.TopicID) bool {
		asked = append(asked, p.String())
		return p.Topic == "kept" || p.Topic == "again" && topic == id(9)
	}))
	if want := []string{"again-0", "deleted-0", "kept-0", "no-id-7"}; !slices.Equal(asked, want) {
		t.Fatalf("asked about %v", asked)
	}
	left := folders(t, fs, "/a")
	if !slices.Equal(left, []string{"again-0.*-stray", "deleted-0.*-stray", "kept-0", "no-id-7.*-stray", "open-0"}) {
		t.Fatalf("folders are now %v", left)
	}
	must(t, s.Stop(true))
}

// folders lists the folders of a directory with unique parts replaced by a star.
func folders(t *testing.T, fs vfs.FS, dir string) []string {
	entries, err := fs.List(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		if !e.Dir {
			continue
		}
		name := e.Name
		if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
			name = name[:dot] + ".*" + name[strings.LastIndexByte(name, '-'):]
		}
		names = append(names, name)
	}
	return names
}

// TestDeletion: the folder is renamed at once and removed after its delay; one that was left by an earlier run too.
func TestDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		s := run(t, options(fs, "/a"))
		l := open(t, s, "orders", 1)
		w := watchSync(l)
		appendTo(t, l, 4)
		must(t, w.wait(4))
		read, err := l.Read(0, commitlog.ReadOptions{MaxBytes: 1000, UpTo: 4, AtLeastOne: true})
		must(t, err)
		must(t, s.Delete(l))
		must(t, s.Delete(l))
		if _, ok := s.Lookup(tp("orders", 0)); ok {
			t.Fatal("still open")
		}
		if b, err := read.Region.ReadAll(); err != nil || len(b) == 0 {
			t.Fatalf("a read that had begun: %d bytes, %v", len(b), err)
		}
		read.Region.Release()
		if again := open(t, s, "orders", 2); again.LogEnd() != 0 {
			t.Fatal("a new topic of the name is not empty")
		}
		time.Sleep(59 * time.Second)
		if got := folders(t, fs, "/a"); !slices.Equal(got, []string{"orders-0", "orders-0.*-delete"}) {
			t.Fatalf("before the delay is over: %v", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := folders(t, fs, "/a"); !slices.Equal(got, []string{"orders-0"}) {
			t.Fatalf("after it: %v", got)
		}
		l, _ = s.Lookup(tp("orders", 0))
		must(t, s.Delete(l))
		must(t, s.Stop(true))
		s = run(t, options(fs, "/a"))
		synctest.Wait()
		if got := folders(t, fs, "/a"); len(got) != 0 {
			t.Fatalf("after a restart: %v", got)
		}
		must(t, s.DeleteClosed(tp("never", 0), id(1)))
		must(t, s.Stop(true))
	})
}

func TestDeleteClosed(t *testing.T) {
	fs := vfs.NewMem()
	s := run(t, options(fs, "/a"))
	open(t, s, "orders", 1)
	must(t, s.Stop(true))
	s = run(t, options(fs, "/a"))
	must(t, s.DeleteClosed(tp("orders", 0), id(2))) // another topic's
	if got := folders(t, fs, "/a"); !slices.Equal(got, []string{"orders-0"}) {
		t.Fatalf("folders %v", got)
	}
	must(t, s.DeleteClosed(tp("orders", 0), id(1)))
	if slices.Contains(folders(t, fs, "/a"), "orders-0") {
		t.Fatal("the folder is still there")
	}
	must(t, s.Stop(true))
}

// TestRetention: old segments go in the background, but never past the high watermark.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		o := options(fs, "/a")
		s := run(t, o)
		cfg := commitlog.DefaultConfig()
		cfg.SegmentBytes, cfg.RetentionBytes = 200, 0
		l, err := s.Open(tp("orders", 0), id(1), kafka.DirUnassigned, cfg)
		must(t, err)
		w := watchSync(l)
		for range 10 {
			appendTo(t, l, 1)
		}
		must(t, w.wait(10))
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		if l.LogStart() != 0 {
			t.Fatalf("deleted up to %d, with a watermark of 0", l.LogStart())
		}
		l.SetHighWatermark(5)
		l.NoteChange()
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		start := l.LogStart()
		if start == 0 || start > 5 {
			t.Fatalf("with watermark 5 the log starts at %d", start)
		}
		files, err := fs.List("/a/orders-0")
		must(t, err)
		if slices.ContainsFunc(files, func(e vfs.Entry) bool { return strings.HasSuffix(e.Name, ".deleted") }) {
			t.Fatalf("renamed files are left after file.delete.delay.ms: %v", files)
		}
		must(t, s.Stop(false))
		s = run(t, o)
		l, err = s.Open(tp("orders", 0), id(1), kafka.DirUnassigned, cfg)
		must(t, err)
		if l.LogStart() != start {
			t.Fatalf("started at %d, starts at %d after a kill", start, l.LogStart())
		}
		must(t, s.Stop(true))
	})
}

// TestFullDisk: below the floor writes are refused, reads are not, and both go on when there is space again.
// TestIdleProducersAreForgotten: when their time is over, at the next look for them, which does not wait for retention.
func TestIdleProducersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(vfs.NewMem(), "/a")
		o.RetentionInterval, o.ProducerInterval, o.ProducerExpiryMs = 1000*time.Hour, time.Second, 10_000
		s := run(t, o)
		l := open(t, s, "orders", 1)
		_, err := l.Append(testBatchOf(7, time.Now().UnixMilli()), commitlog.AppendOptions{LeaderEpoch: 1})
		must(t, err)
		for _, at := range []struct {
			after time.Duration
			want  int
		}{{9 * time.Second, 1}, {3 * time.Second, 0}} {
			time.Sleep(at.after)
			synctest.Wait()
			if got := len(l.Producers()); got != at.want {
				t.Errorf("%v later the log knows %d producers, want %d", at.after, got, at.want)
			}
		}
		must(t, s.Stop(true))
	})
}

func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		fs.SetCapacity(100 << 20) // floor 16 MiB
		s := run(t, options(fs, "/a"))
		l := open(t, s, "orders", 1)
		w := watchSync(l)
		appendTo(t, l, 1)
		must(t, w.wait(1))
		usage, err := fs.Usage("/a")
		must(t, err)
		if used := usage.Total - usage.Free; used < reserveBytes {
			t.Fatalf("%d bytes in use: there is no reserve", used)
		}
		ballast, err := fs.Open("/ballast", vfs.Create)
		must(t, err)
		must(t, ballast.Allocate(usage.Free-10<<20))
		appendTo(t, l, 1) // nobody has looked yet
		time.Sleep(2 * time.Second)
		if _, err := l.Append(records(1), commitlog.AppendOptions{}); !errors.Is(err, kerr.KafkaStorageError) {
			t.Fatalf("append to a full disk: %v", err)
		}
		if _, err := s.Open(tp("new", 0), id(2), kafka.DirUnassigned, commitlog.DefaultConfig()); !errors.Is(err, kerr.KafkaStorageError) {
			t.Fatalf("new partition on a full disk: %v", err)
		}
		if r, err := l.Read(0, commitlog.ReadOptions{MaxBytes: 1000, UpTo: 2}); err != nil || r.Region == nil {
			t.Fatalf("read from a full disk: %v", err)
		} else {
			r.Region.Release()
		}
		must(t, l.SetLogStart(0)) // the journal goes on
		if _, err := fs.Stat("/a/" + reserveFile); err == nil {
			t.Fatal("the reserve was not given up")
		}
		if !l.Dir().Online() || !l.Dir().Full() {
			t.Fatal("full is not failed")
		}
		must(t, ballast.Close())
		must(t, fs.Remove("/ballast"))
		time.Sleep(2 * time.Second)
		appendTo(t, l, 1)
		must(t, w.wait(3))
		time.Sleep(2 * time.Second)
		if _, err := fs.Stat("/a/" + reserveFile); err != nil {
			t.Fatalf("the reserve was not made again: %v", err)
		}
		must(t, s.Stop(true))
	})
}

// TestSpaceSetAsideIsGivenBack: before a disk counts as full, the logs give back what they have set aside, and they set
// aside no more while little is free.
func TestSpaceSetAsideIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		disk.SetCapacity(200 << 20) // floor 16 MiB, and 36 MiB are enough
		fs := vfs.NewLog(disk, nil)
		s := run(t, options(fs, "/a"))
		defer func() { must(t, s.Stop(true)) }()
		l := open(t, s, "orders", 1)
		for l.Size() < 5<<20 {
			appendTo(t, l, 10000)
		}
		time.Sleep(2 * time.Second)
		free := func() int64 {
			usage, err := fs.Usage("/a")
			must(t, err)
			return usage.Free
		}
		if fs.Count(vfs.OpReserve) == 0 {
			t.Fatal("nothing was set aside")
		}
		ballast, err := disk.Open("/ballast", vfs.Create)
		must(t, err)
		must(t, ballast.Allocate(free()-16<<20+1)) // a little below the floor
		must(t, ballast.Close())
		appendTo(t, l, 1)
		before := free()
		time.Sleep(2 * time.Second)
		if after := free(); l.Dir().Full() || after < before+1<<20 {
			t.Fatalf("full=%v, %d bytes free, %d before anybody looked", l.Dir().Full(), after, before)
		}
		fs.Reset()
		for range 20 {
			appendTo(t, l, 10000)
		}
		if n := fs.Count(vfs.OpReserve); n != 0 {
			t.Fatalf("%d times set aside on a disk that is nearly full", n)
		}
		must(t, disk.Remove("/ballast"))
		time.Sleep(2 * time.Second)
		for range 50 {
			appendTo(t, l, 10000)
		}
		if fs.Count(vfs.OpReserve) == 0 {
			t.Fatal("nothing is set aside when there is space again")
		}
	})
}

// TestDiskRefusesWrite: ENOSPC from the disk itself, before anybody looked, is full and not failed.
func TestDiskRefusesWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewInject(vfs.NewMem())
		s := run(t, options(fs, "/a"))
		l := open(t, s, "orders", 1)
		w := watchSync(l)
		fs.SetRules(func(op vfs.Op) error {
			if op.Kind == vfs.OpWrite && strings.HasSuffix(op.Path, ".log") {
				return syscall.ENOSPC
			}
			return nil
		})
		for range 2 {
			if _, err := l.Append(records(1), commitlog.AppendOptions{}); !errors.Is(err, kerr.KafkaStorageError) {
				t.Fatalf("append: %v", err)
			}
		}
		fs.SetRules()
		time.Sleep(2 * time.Second)
		if a := appendTo(t, l, 1); a.First != 0 {
			t.Fatalf("the refused record took an offset: the next is %d", a.First)
		}
		must(t, w.wait(1))
		must(t, s.Stop(true))
	})
}

// TestFailedSyncFailsTheDirectory: every log there is told once, nothing is tried again, other directories go on.
func TestFailedSyncFailsTheDirectory(t *testing.T) {
	fs := vfs.NewInject(vfs.NewMem())
	s := run(t, options(fs, "/a", "/b"))
	var logs []*Log
	var watches []*syncWatch
	for i := range byte(4) {
		l := open(t, s, fmt.Sprint("t", i), i)
		logs, watches = append(logs, l), append(watches, watchSync(l))
	}
	var mu sync.Mutex
	failed := 0
	fs.SetRules(func(op vfs.Op) error {
		if (op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncData) && strings.HasPrefix(op.Path, "/a/") {
			mu.Lock()
			defer mu.Unlock()
			failed++
			return syscall.EIO
		}
		return nil
	})
	for _, l := range logs {
		_, err := l.Append(records(1), commitlog.AppendOptions{})
		if err == nil {
			l.AppendDone()
		}
	}
	for i, l := range logs {
		inA := l.Dir().Path() == "/a"
		if err := watches[i].wait(1); inA != (err != nil) || inA && !errors.Is(err, kerr.KafkaStorageError) {
			t.Fatalf("%s in %s: %v", l.TopicPartition(), l.Dir().Path(), err)
		}
		if _, err := l.Append(records(1), commitlog.AppendOptions{}); inA != (err != nil) {
			t.Fatalf("append to %s in %s: %v", l.TopicPartition(), l.Dir().Path(), err)
		}
		l.AppendDone()
	}
	if d := <-s.Failures(); d.Path() != "/a" {
		t.Fatalf("%s failed", d.Path())
	}
	must(t, s.Stop(true))
	for i, w := range watches {
		if inA := logs[i].Dir().Path() == "/a"; inA && len(w.errs) != 1 {
			t.Fatalf("%s was told %d times", logs[i].TopicPartition(), len(w.errs))
		}
	}
	if failed > 2 {
		t.Fatalf("%d syncs were tried in a directory whose sync had failed; the two that may run side by side are enough", failed)
	}
	if _, err := fs.Stat("/a/.kafka_cleanshutdown"); err == nil {
		t.Fatal("a failed directory has the mark of a clean stop")
	}
}

// TestGroupCommit: while a sync runs, appends gather; one more sync covers them all, however many they are.
func TestGroupCommit(t *testing.T) {
	fs := vfs.NewInject(vfs.NewMem())
	s := run(t, options(fs, "/a"))
	const partitions, appends = 40, 25
	var logs []*Log
	var watches []*syncWatch
	for i := range byte(partitions) {
		l := open(t, s, fmt.Sprint("t", i), i)
		logs, watches = append(logs, l), append(watches, watchSync(l))
		appendTo(t, l, 1)
	}
	for _, w := range watches {
		must(t, w.wait(1))
	}
	// Hold the first sync back.
	started, hold := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	syncs, inside, most := 0, 0, 0
	fs.SetRules(func(op vfs.Op) error {
		if op.Kind != vfs.OpSync && op.Kind != vfs.OpSyncData || !strings.HasSuffix(op.Path, ".log") {
			return nil
		}
		mu.Lock()
		syncs++
		first := syncs == 1
		inside++
		most = max(most, inside)
		mu.Unlock()
		if first {
			close(started)
			<-hold
		}
		mu.Lock()
		inside--
		mu.Unlock()
		return nil
	})
	appendTo(t, logs[0], 1)
	<-started
	for range appends {
		for _, l := range logs {
			appendTo(t, l, 1)
		}
	}
	close(hold)
	for i, w := range watches {
		must(t, w.wait(logs[i].LogEnd()))
	}
	must(t, s.Stop(false))
	if syncs > 1+partitions {
		t.Fatalf("%d appends to %d partitions took %d syncs", appends*partitions+1, partitions, syncs)
	}
	if most > 16 {
		t.Fatalf("%d syncs at once", most)
	}
}

// TestConcurrent hammers many logs from many goroutines: what is reported synced is, and in the end all is.
func TestConcurrent(t *testing.T) {
	fs := vfs.NewMem()
	o := options(fs, "/a", "/b")
	o.JournalInterval, o.CheckpointInterval, o.SpaceInterval, o.RetentionInterval = time.Millisecond, 3*time.Millisecond, time.Millisecond, time.Millisecond
	s := run(t, o)
	var wg sync.WaitGroup
	for i := range byte(8) {
		wg.Go(func() {
			l := open(t, s, fmt.Sprint("t", i), i)
			w := watchSync(l)
			var writers sync.WaitGroup
			for range 3 {
				writers.Go(func() {
					for range 30 {
						a, err := l.Append(records(2), commitlog.AppendOptions{LeaderEpoch: 1})
						if err != nil {
							t.Error(err)
							return
						}
						l.AppendDone()
						if err := w.wait(a.Last + 1); err != nil {
							t.Error(err)
						}
						if l.SyncedEnd() <= a.Last {
							t.Errorf("reported synced beyond %d, but it is %d", a.Last, l.SyncedEnd())
						}
						l.SetHighWatermark(l.SyncedEnd())
						l.NoteChange()
					}
				})
			}
			writers.Wait()
			if l.SyncedEnd() != 180 {
				t.Errorf("synced %d of 180", l.SyncedEnd())
			}
			if i%2 == 0 {
				if err := s.Delete(l); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	must(t, s.Stop(true))
	s = run(t, o)
	for i := byte(1); i < 8; i += 2 {
		if l := open(t, s, fmt.Sprint("t", i), i); l.LogEnd() != 180 {
			t.Fatalf("%s ends at %d", l.TopicPartition(), l.LogEnd())
		}
	}
	must(t, s.Stop(true))
}

// TestIdleStoreHasNoTimers: when nothing changes, nothing wakes up but retention.
func TestIdleStoreHasNoTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewInject(vfs.NewMem())
		o := options(fs, "/a")
		o.RetentionInterval, o.ProducerInterval = 1000*time.Hour, 1000*time.Hour
		s := run(t, o)
		l := open(t, s, "orders", 1)
		w := watchSync(l)
		appendTo(t, l, 1)
		must(t, w.wait(1))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		before := fs.Count()
		time.Sleep(400 * time.Hour)
		synctest.Wait()
		if n := fs.Count() - before; n != 0 {
			t.Fatalf("%d disk operations in an idle store", n)
		}
		must(t, s.Stop(true))
	})
}

func TestRunKeepsOrder(t *testing.T) {
	s := run(t, options(vfs.NewMem(), "/a"))
	var mu sync.Mutex
	got := map[string][]int{}
	var wg sync.WaitGroup
	for i := range 100 {
		for _, topic := range []string{"a", "b", "c"} {
			wg.Add(1)
			s.Run(tp(topic, 0), func() {
				defer wg.Done()
				mu.Lock()
				defer mu.Unlock()
				got[topic] = append(got[topic], i)
			})
		}
	}
	wg.Wait()
	for topic, order := range got {
		if len(order) != 100 || !slices.IsSorted(order) {
			t.Fatalf("%s ran in the order %v", topic, order)
		}
	}
	must(t, s.Stop(true))
	s.Run(tp("a", 0), func() { t.Error("a job ran after the stop") })
}

// TestDirectoriesFillEvenly: partitions that are made at the same time do not all choose the same directory.
func TestDirectoriesFillEvenly(t *testing.T) {
	s := run(t, options(vfs.NewMem(), "/a", "/b", "/c"))
	defer func() { must(t, s.Stop(true)) }()
	var made sync.WaitGroup
	for i := range int32(30) {
		made.Go(func() {
			_, err := s.Open(kafka.TopicPartition{Topic: "many", Partition: i}, kafka.TopicID{1}, kafka.DirUnassigned, commitlog.DefaultConfig())
			if err != nil {
				t.Error(err)
			}
		})
	}
	made.Wait()
	for _, d := range s.dirs {
		if got := s.foldersIn(d); got != 10 {
			t.Errorf("%s has %d partitions of 30, want 10", d.path, got)
		}
	}
}

// TestHalfMadeThenElsewhere: a partition whose making fails for want of space in one directory and succeeds in the other
// lies in one after a power cut, whatever of the unsynced the disk has kept.
func TestHalfMadeThenElsewhere(t *testing.T) {
	for seed := range uint64(40) {
		mem := vfs.NewMem()
		full := vfs.Nth(0, vfs.OnOp(vfs.OpCreate, "orders-0/*.timeindex", syscall.ENOSPC))
		s := run(t, options(vfs.NewInject(mem, full), "/a", "/b"))
		if _, err := s.Open(tp("orders", 0), id(1), kafka.DirUnassigned, commitlog.DefaultConfig()); err == nil {
			t.Fatal("made on a full disk")
		}
		l, err := s.Open(tp("orders", 0), id(1), s.dirs[1].ID(), commitlog.DefaultConfig())
		must(t, err)
		if l.Dir() != s.dirs[1] {
			t.Fatalf("made in %s", l.Dir().Path())
		}
		crashed := mem.CrashClone(rand.New(rand.NewPCG(seed, 1)), 0.5)
		must(t, s.Stop(false))
		again, err := OpenDirectories(options(crashed, "/a", "/b"))
		must(t, err)
		must(t, again.Stop(false))
	}
}

// TestClaimedDirectoryKeepsItsID: a node that has told others its directory id has it after a power cut, without having become
// one of a cluster.
func TestClaimedDirectoryKeepsItsID(t *testing.T) {
	fs := vfs.NewMem()
	s, err := OpenDirectories(options(fs, "/a"))
	must(t, err)
	must(t, s.Claim())
	told := s.Directories()[0].ID()

	after := fs.CrashClone(rand.New(rand.NewPCG(1, 1)), 0)
	s, err = OpenDirectories(options(after, "/a"))
	must(t, err)
	if _, formatted := s.ClusterID(); formatted || s.Directories()[0].ID() != told {
		t.Fatalf("formatted %v, id %v, told %v", formatted, s.Directories()[0].ID(), told)
	}
	must(t, s.Format("cluster"))
	if id, _ := s.ClusterID(); id != "cluster" || s.Directories()[0].ID() != told {
		t.Fatalf("cluster %q, id %v, told %v", id, s.Directories()[0].ID(), told)
	}
	must(t, s.Start())
	must(t, s.Stop(true))
}
