package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
	"moldau/internal/xsync"
)

// journalFile is the side journal's name. Apache Kafka ignores files it does not know in a log directory.
const journalFile = "moldau.journal"

// journalMagic starts the file; its last byte is the format's version.
const journalMagic = "MOLDAUJ\x01"

// Kinds of journal entry: the first byte of an entry's payload. docs/format/journal.md has every byte.
const (
	entryPartition   = 1 // number, topic id, partition, topic: a partition that lies here
	entryGone        = 2 // number: it no longer does
	entryOffsets     = 3 // (number, recovery point, high watermark, log start) repeated
	entryCheckpoint  = 4 // file, fingerprint: a content of a checkpoint file that we wrote
	entryBrokerEpoch = 5 // epoch: of the newest registration whose log is as good as after a clean stop
)

// Bounds of one entry: a header of length and CRC, and a payload that stays small so that a torn one costs little.
const (
	entryHeaderSize  = 8
	maxEntryBytes    = 64 << 10
	compactAboveSize = 256 << 10
)

// offsets is what a directory remembers of one partition.
type offsets struct {
	recoveryPoint int64 // all below was durable
	highWatermark int64
	logStart      int64
}

// journalled is one partition in the journal's state.
type journalled struct {
	number uint64 // what the journal calls it
	tp     kafka.TopicPartition
	id     kafka.TopicID // zero if it came from text checkpoints, which know no ids
	offsets
}

// journal is the append-only side file of one directory. Its state is made only by applying entries, on the live path
// and when the file is read.
type journal struct {
	fs   vfs.FS
	path string

	mu         xsync.Mutex // held across the file's writes and syncs
	file       vfs.File
	end        int64 // the file is good below; the next entry goes here
	state      map[kafka.TopicPartition]*journalled
	byNumber   map[uint64]*journalled
	nextNumber uint64
	written    [3][2]uint64 // per checkpoint file the fingerprints of the last two contents we wrote, newest first
	epoch      int64        // -1 = none
	buf        []byte
}

// openJournal reads the journal of dir, or makes an empty state if there is none or none that can be read. found tells
// which. A torn or damaged tail is dropped: every entry only saves work at the next start, except log starts, which are
// synced before anyone is told.
func openJournal(fsys vfs.FS, dir string) (j *journal, found bool, err error) {
	j = &journal{fs: fsys, path: filepath.Join(dir, journalFile)}
	j.reset()
	content, err := vfs.ReadFile(fsys, j.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return j, false, nil
	case err != nil:
		return nil, false, err
	}
	if len(content) < len(journalMagic) || string(content[:len(journalMagic)]) != journalMagic {
		return j, false, nil
	}
	at := len(journalMagic)
	for {
		payload, n := nextEntry(content[at:])
		if n == 0 || j.apply(payload) != nil {
			break
		}
		at += n
	}
	j.file, err = fsys.Open(j.path, vfs.Write)
	if err != nil {
		return nil, false, err
	}
	j.end = int64(at)
	if at < len(content) {
		err = j.file.Truncate(j.end)
	}
	if err == nil {
		// What was read need not be on the disk, and after a sync that failed in an earlier run no sync would bring it there:
		// it has to be written again. A later entry would be lost with a gap before it.
		_, err = j.file.WriteAt(content[:at], 0)
	}
	if err == nil {
		err = j.file.SyncData()
	}
	if err != nil {
		return nil, false, errors.Join(err, j.file.Close())
	}
	return j, true, nil
}

func (j *journal) reset() {
	j.state = map[kafka.TopicPartition]*journalled{}
	j.byNumber = map[uint64]*journalled{}
	j.nextNumber = 1
	j.written = [3][2]uint64{}
	j.epoch = -1
}

// nextEntry returns the payload at the start of b and the bytes it takes with its header; 0 if there is no whole one.
func nextEntry(b []byte) (payload []byte, n int) {
	if len(b) < entryHeaderSize {
		return nil, 0
	}
	size := binary.BigEndian.Uint32(b)
	if size == 0 || size > maxEntryBytes || int(size) > len(b)-entryHeaderSize {
		return nil, 0
	}
	payload = b[entryHeaderSize : entryHeaderSize+size]
	if crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(b[4:]) {
		return nil, 0
	}
	return payload, entryHeaderSize + int(size)
}

// appendEntry adds header and payload to dst. fill appends the payload.
func appendEntry(dst []byte, fill func([]byte) []byte) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, entryHeaderSize)...)
	dst = fill(dst)
	payload := dst[at+entryHeaderSize:]
	binary.BigEndian.PutUint32(dst[at:], uint32(len(payload)))
	binary.BigEndian.PutUint32(dst[at+4:], crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)))
	return dst
}

var errBadEntry = errors.New("malformed journal entry")

// apply changes the state by one entry. An error leaves the state as it was before.
func (j *journal) apply(payload []byte) error {
	r := entryReader{b: payload[1:]}
	switch payload[0] {
	case entryPartition:
		number := r.uvarint()
		var id kafka.TopicID
		copy(id[:], r.bytes(len(id)))
		partition := r.uvarint()
		topic := string(r.b)
		if r.bad || topic == "" || partition > 1<<31-1 {
			return errBadEntry
		}
		tp := kafka.TopicPartition{Topic: topic, Partition: int32(partition)}
		if old := j.state[tp]; old != nil {
			delete(j.byNumber, old.number)
		}
		e := &journalled{number: number, tp: tp, id: id}
		j.state[tp], j.byNumber[number] = e, e
		j.nextNumber = max(j.nextNumber, number+1)
	case entryGone:
		number := r.uvarint()
		e := j.byNumber[number]
		if r.bad || e == nil {
			return errBadEntry
		}
		delete(j.byNumber, number)
		delete(j.state, e.tp)
	case entryOffsets:
		for check := r; len(check.b) > 0; {
			number := check.uvarint()
			check.offsets()
			if check.bad || j.byNumber[number] == nil {
				return errBadEntry
			}
		}
		for len(r.b) > 0 {
			e := j.byNumber[r.uvarint()]
			e.offsets = r.offsets()
		}
	case entryCheckpoint:
		file, print := r.uvarint(), r.uint64()
		if r.bad || file >= uint64(len(j.written)) {
			return errBadEntry
		}
		w := &j.written[file]
		w[0], w[1] = print, w[0]
	case entryBrokerEpoch:
		epoch := r.uint64()
		if r.bad {
			return errBadEntry
		}
		j.epoch = int64(epoch)
	default:
		// A later version's entry: what it saves is lost on this one, nothing else.
	}
	return nil
}

// entryReader takes fields off the front of a payload.
type entryReader struct {
	b   []byte
	bad bool
}

func (r *entryReader) bytes(n int) []byte {
	if len(r.b) < n {
		r.bad, r.b = true, nil
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *entryReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *entryReader) uint64() uint64 {
	b := r.bytes(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func (r *entryReader) offsets() offsets {
	return offsets{recoveryPoint: int64(r.uvarint()), highWatermark: int64(r.uvarint()), logStart: int64(r.uvarint())}
}

func appendOffsets(b []byte, number uint64, o offsets) []byte {
	b = binary.AppendUvarint(b, number)
	b = binary.AppendUvarint(b, uint64(o.recoveryPoint))
	b = binary.AppendUvarint(b, uint64(o.highWatermark))
	return binary.AppendUvarint(b, uint64(o.logStart))
}

func appendPartition(b []byte, number uint64, id kafka.TopicID, tp kafka.TopicPartition) []byte {
	b = append(b, entryPartition)
	b = binary.AppendUvarint(b, number)
	b = append(b, id[:]...)
	b = binary.AppendUvarint(b, uint64(tp.Partition))
	return append(b, tp.Topic...)
}

// change is one partition's news for the journal.
type change struct {
	tp   kafka.TopicPartition
	id   kafka.TopicID
	gone bool
	offsets
}

// write appends the changes, makes them durable and compacts the file when most of it is old news. Changes of one
// partition take effect in the order given.
func (j *journal) write(changes []change) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := j.buf[:0]
	next := j.nextNumber
	numbers := map[kafka.TopicPartition]journalled{} // numbers and ids as they will be once b is applied
	known := func(tp kafka.TopicPartition) (journalled, bool) {
		if e, ok := numbers[tp]; ok {
			return e, e.number != 0
		}
		if e := j.state[tp]; e != nil {
			return *e, true
		}
		return journalled{}, false
	}
	for _, c := range changes {
		e, ok := known(c.tp)
		switch {
		case c.gone:
			if ok && e.id == c.id { // else it is the folder of a younger topic with the same name
				b = appendEntry(b, func(b []byte) []byte { return binary.AppendUvarint(append(b, entryGone), e.number) })
				numbers[c.tp] = journalled{}
			}
			continue
		case !ok || e.id != c.id:
			e = journalled{number: next, id: c.id}
			next++
			numbers[c.tp] = e
			b = appendEntry(b, func(b []byte) []byte { return appendPartition(b, e.number, c.id, c.tp) })
		}
		b = appendEntry(b, func(b []byte) []byte { return appendOffsets(append(b, entryOffsets), e.number, c.offsets) })
	}
	return j.appendLocked(b)
}

// wrote says that content is about to become checkpoint file's content. It is durable before the file is replaced, so
// that a file which carries neither of the last two fingerprints was written by another program.
func (j *journal) wrote(file int, content []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	print := fingerprint(content)
	if j.written[file][0] == print {
		return nil
	}
	return j.appendLocked(appendEntry(j.buf[:0], func(b []byte) []byte {
		b = binary.AppendUvarint(append(b, entryCheckpoint), uint64(file))
		return binary.BigEndian.AppendUint64(b, print)
	}))
}

// setEpoch stores the epoch of a registration.
func (j *journal) setEpoch(epoch int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.epoch == epoch {
		return nil
	}
	return j.appendLocked(appendEntry(j.buf[:0], func(b []byte) []byte {
		return binary.BigEndian.AppendUint64(append(b, entryBrokerEpoch), uint64(epoch))
	}))
}

// appendLocked writes whole entries to the end of the file, syncs them and applies them. After an error the file ends
// where it did before.
func (j *journal) appendLocked(b []byte) error {
	j.buf = b[:0]
	if len(b) == 0 {
		return nil
	}
	if j.file == nil {
		if err := j.rewriteLocked(); err != nil {
			return err
		}
	}
	if _, err := j.file.WriteAt(b, j.end); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", j.path, err), j.file.Truncate(j.end))
	}
	if err := j.file.SyncData(); err != nil {
		return &syncError{fmt.Errorf("sync %s: %w", j.path, err)}
	}
	j.end += int64(len(b))
	for rest := b; len(rest) > 0; {
		payload, n := nextEntry(rest)
		if n == 0 {
			return fmt.Errorf("%s: %w", j.path, errBadEntry)
		}
		if err := j.apply(payload); err != nil {
			return fmt.Errorf("%s: %w", j.path, err)
		}
		rest = rest[n:]
	}
	if j.end > compactAboveSize && j.end > 4*j.liveSizeLocked() {
		return j.rewriteLocked()
	}
	return nil
}

// liveSizeLocked estimates the size of a file that holds the state and nothing else.
func (j *journal) liveSizeLocked() int64 { return int64(len(j.state)) * 96 }

// rewriteLocked replaces the file by one that holds the state and nothing else. Partitions keep their numbers, so that
// entries made before still fit. When it fails before the rename the old file is still the journal and nothing has
// changed.
func (j *journal) rewriteLocked() error {
	tps := make([]kafka.TopicPartition, 0, len(j.state))
	for tp := range j.state {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, compareTP)
	b := []byte(journalMagic)
	for _, tp := range tps {
		e := j.state[tp]
		b = appendEntry(b, func(b []byte) []byte { return appendPartition(b, e.number, e.id, tp) })
		b = appendEntry(b, func(b []byte) []byte { return appendOffsets(append(b, entryOffsets), e.number, e.offsets) })
	}
	for file, prints := range j.written {
		for i := len(prints) - 1; i >= 0; i-- {
			b = appendEntry(b, func(b []byte) []byte {
				b = binary.AppendUvarint(append(b, entryCheckpoint), uint64(file))
				return binary.BigEndian.AppendUint64(b, prints[i])
			})
		}
	}
	b = appendEntry(b, func(b []byte) []byte {
		return binary.BigEndian.AppendUint64(append(b, entryBrokerEpoch), uint64(j.epoch))
	})
	tmp := j.path + ".tmp"
	file, err := j.fs.Open(tmp, vfs.Create|vfs.Truncate)
	if err != nil {
		return err
	}
	if _, err = file.WriteAt(b, 0); err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = j.fs.Rename(tmp, j.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("rewrite %s: %w", j.path, err), file.Close())
	}
	// The descriptor goes on with the file under its new name, so entries never go to a file that is no longer it.
	old := j.file
	j.file, j.end = file, int64(len(b))
	if old != nil {
		err = old.Close()
	}
	if syncErr := j.fs.SyncDir(filepath.Dir(j.path)); syncErr != nil {
		return &syncError{errors.Join(err, syncErr)}
	}
	return err
}

// recall returns what is known of a partition, if it is known under this topic id or under none.
func (j *journal) recall(tp kafka.TopicPartition, id kafka.TopicID) offsets {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.state[tp]; e != nil && (e.id == id || e.id.IsZero()) {
		return e.offsets
	}
	return offsets{}
}

// topicID returns the id under which a partition is known; zero if it is not.
func (j *journal) topicID(tp kafka.TopicPartition) kafka.TopicID {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.state[tp]; e != nil {
		return e.id
	}
	return kafka.TopicID{}
}

// checkpoints returns the state as the contents of Kafka's three files. As Kafka does, a log start of 0 is left out.
func (j *journal) checkpoints() [3]checkpoint {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := [3]checkpoint{{}, {}, {}}
	for tp, e := range j.state {
		c[0][tp] = e.recoveryPoint
		c[1][tp] = e.highWatermark
		if e.logStart > 0 {
			c[2][tp] = e.logStart
		}
	}
	return c
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}

// adopt replaces the state by what Kafka's text checkpoints say, and notes their fingerprints. They know no topic ids.
func (j *journal) adopt(files [3]checkpoint, prints [3]uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	epoch := j.epoch
	j.reset()
	j.epoch = epoch
	named := map[kafka.TopicPartition]bool{}
	for _, c := range files {
		for tp := range c {
			named[tp] = true
		}
	}
	tps := make([]kafka.TopicPartition, 0, len(named))
	for tp := range named {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, compareTP)
	for _, tp := range tps {
		e := &journalled{number: j.nextNumber, tp: tp, offsets: offsets{files[0][tp], files[1][tp], files[2][tp]}}
		j.state[tp], j.byNumber[e.number] = e, e
		j.nextNumber++
	}
	for i, print := range prints {
		j.written[i] = [2]uint64{print, 0}
	}
	return j.rewriteLocked()
}

func (j *journal) brokerEpoch() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.epoch
}
