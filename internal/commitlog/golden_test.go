package commitlog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"moldau/internal/batch"
	"moldau/internal/vfs"
)

// TestDiskOperations pins every change of the disk, in order. The files of testdata/disk tell what each step does to it.
func TestDiskOperations(t *testing.T) {
	datadriven.Walk(t, "testdata/disk", func(t *testing.T, path string) {
		log := vfs.NewLog(vfs.NewMem(), nil)
		c := DefaultConfig()
		c.SegmentBytes, c.IndexIntervalBytes, c.RetentionMs = 400, 100, -1
		clk := &clock{ms: startMs}
		o := Options{FS: log, Dir: testDir, TP: testTP, Config: c, Files: NewFiles(log, 64), Now: clk.now}
		var l *Log
		seq := int32(0)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			arg := func(name string, otherwise int64) int64 {
				if d.HasArg(name) {
					d.ScanArgs(t, name, &otherwise)
				}
				return otherwise
			}
			clk.ms += 10
			var err error
			result := ""
			switch d.Cmd {
			case "open":
				o.Clean, o.RecoveryPoint = d.HasArg("clean"), arg("recovery-point", 0)
				var r Recovery
				if l, r, err = Open(o); err == nil {
					result = fmt.Sprintf("end=%d from=%d scanned=%d cut=%d\n", l.LogEnd(), r.From, r.ScannedBytes, r.TruncatedBytes)
				}
			case "append":
				for range arg("batches", 1) {
					n := arg("records", 1)
					_, err = l.Append(records("r", int(n), batch.BuildOptions{Producer: &batch.Producer{ID: 1, BaseSequence: seq}}, clk.ms),
						AppendOptions{LeaderEpoch: int32(arg("epoch", 0)), Now: clk.ms})
					seq += int32(n)
				}
				l.SetDeletionBound(l.LogEnd())
				result = fmt.Sprintf("end=%d\n", l.LogEnd())
			case "sync":
				_, err = l.Sync()
				result = fmt.Sprintf("synced=%d recovery-point=%d\n", l.SyncedEnd(), l.RecoveryPoint())
			case "truncate":
				err = l.Truncate(arg("to", 0))
				seq = 0
				for _, p := range l.Producers() {
					seq = p.LastSequence + 1
				}
				result = fmt.Sprintf("end=%d recovery-point=%d\n", l.LogEnd(), l.RecoveryPoint())
			case "empty":
				err = l.TruncateFullyAt(arg("at", 0))
			case "log-start":
				err = l.SetLogStart(arg("to", 0))
			case "retain":
				_, err = l.Retain(clk.now())
			case "delete-pending":
				_, err = l.DeletePending(clk.now().Add(time.Hour))
			case "close":
				err = l.Close()
			case "kill":
				l.Abandon()
			default:
				t.Fatalf("unknown command %q", d.Cmd)
			}
			if err != nil {
				result += err.Error() + "\n"
			}
			for _, line := range log.Lines() {
				result += strings.ReplaceAll(line, testDir+"/", "") + "\n"
			}
			log.Reset()
			if result == "" {
				return "nothing\n"
			}
			return result
		})
	})
}
