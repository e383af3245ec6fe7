package commitlog

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// epochStart says at which offset the log of a leader epoch begins.
type epochStart struct {
	epoch kafka.Epoch
	start kafka.Offset
}

// epochs is the history of leader epochs in a log, both fields growing. Values are immutable: a change makes a new slice.
// Mirrors LeaderEpochFileCache (KIP-101, KIP-279).
type epochs []epochStart

func (e epochs) last() kafka.Epoch {
	if len(e) == 0 {
		return kafka.NoEpoch
	}
	return e[len(e)-1].epoch
}

// assign returns the history with epoch beginning at start. Entries that contradict it, because they are of a later
// epoch or begin later, are dropped: they are of a log that was truncated since.
func (e epochs) assign(epoch kafka.Epoch, start kafka.Offset) epochs {
	if n := len(e); epoch < 0 || start < 0 || n > 0 && e[n-1].epoch == epoch && e[n-1].start <= start {
		return e
	}
	keep := len(e)
	for keep > 0 && (e[keep-1].epoch >= epoch || e[keep-1].start >= start) {
		keep--
	}
	return append(slices.Clone(e[:keep]), epochStart{epoch, start})
}

// endOffset answers OffsetForLeaderEpoch: the largest known epoch up to the wanted one, and where it ends; -1, -1 when
// the wanted one is later than any here.
func (e epochs) endOffset(wanted kafka.Epoch, logEnd kafka.Offset) (kafka.Epoch, kafka.Offset) {
	if wanted < 0 || wanted > e.last() {
		return kafka.NoEpoch, -1
	}
	if wanted == e.last() {
		return wanted, logEnd
	}
	higher, _ := slices.BinarySearchFunc(e, wanted+1, func(s epochStart, epoch kafka.Epoch) int { return int(s.epoch) - int(epoch) })
	if higher == 0 {
		return wanted, e[0].start // all that is known begins after it
	}
	return e[higher-1].epoch, e[higher].start
}

// cutEnd drops the epochs that begin at or after end.
func (e epochs) cutEnd(end kafka.Offset) epochs {
	n := len(e)
	for n > 0 && e[n-1].start >= end {
		n--
	}
	return slices.Clip(e[:n])
}

// cutStart drops what lies before start; the epoch that start is in begins there now.
func (e epochs) cutStart(start kafka.Offset) epochs {
	n := 0
	for n < len(e) && e[n].start <= start {
		n++
	}
	if n == 0 || n == 1 && e[0].start == start {
		return e
	}
	cut := slices.Clone(e[n-1:])
	cut[0].start = start
	return cut
}

// at returns the epoch of the record at offset, or -1.
func (e epochs) at(offset kafka.Offset) kafka.Epoch {
	for i := len(e) - 1; i >= 0; i-- {
		if e[i].start <= offset {
			return e[i].epoch
		}
	}
	return kafka.NoEpoch
}

// Text of leader-epoch-checkpoint: version, number of lines, then "epoch startOffset".
func (e epochs) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "0\n%d\n", len(e))
	for _, s := range e {
		fmt.Fprintf(&b, "%d %d\n", s.epoch, s.start)
	}
	return b.Bytes()
}

func parseEpochs(text []byte) (epochs, error) {
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) < 2 || lines[0] != "0" || lines[1] != strconv.Itoa(len(lines)-2) {
		return nil, fmt.Errorf("want a line \"0\", a count, and as many lines of epochs; have %d lines", len(lines))
	}
	var e epochs
	for _, line := range lines[2:] {
		left, right, _ := strings.Cut(line, " ")
		epoch, err1 := strconv.ParseInt(left, 10, 32)
		start, err2 := strconv.ParseInt(right, 10, 64)
		if err1 != nil || err2 != nil || epoch < 0 || start < 0 {
			return nil, fmt.Errorf("line %q is not an epoch and an offset", line)
		}
		if n := len(e); n > 0 && (int64(e[n-1].epoch) >= epoch || e[n-1].start >= start) {
			return nil, fmt.Errorf("line %q does not grow", line)
		}
		e = append(e, epochStart{kafka.Epoch(epoch), start})
	}
	return e, nil
}

func (e epochs) write(fsys vfs.FS, dir string) error {
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, epochsName), e.encode())
}
