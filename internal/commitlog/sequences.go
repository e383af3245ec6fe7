package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// sequencesSuffix names our own companion of a producer snapshot. Kafka's snapshot has only the last batch of a producer.
// A producer with five requests in flight sends all of them again after a restart, the oldest first, and without the
// earlier four that would look like a gap; it would then begin anew and write its records twice. Kafka ignores the file.
const sequencesSuffix = ".sequences"

// The file is version 0, CRC-32C of all after it, then per producer its id, epoch, number of batches, and per batch, the
// oldest first and the last one left out, last sequence, last offset, offset delta and timestamp.
const (
	sequencesHeader   = 2 + 4
	sequencesProducer = 8 + 2 + 2
	sequencesBatch    = 4 + 8 + 4 + 8
)

// encodeSequences returns the content of the file, or nil if all is in the snapshot.
func (ps *producers) encodeSequences() []byte {
	be := binary.BigEndian
	b := make([]byte, sequencesHeader)
	for _, p := range ps.sorted() {
		if p.known < 2 {
			continue
		}
		b = be.AppendUint64(b, uint64(p.id))
		b = be.AppendUint16(b, uint16(p.epoch))
		b = be.AppendUint16(b, uint16(p.known-1))
		for _, s := range p.sent[:p.known-1] {
			b = be.AppendUint32(b, uint32(s.lastSequence))
			b = be.AppendUint64(b, uint64(s.lastOffset))
			b = be.AppendUint32(b, uint32(s.offsetDelta))
			b = be.AppendUint64(b, uint64(s.timestamp))
		}
	}
	if len(b) == sequencesHeader {
		return nil
	}
	be.PutUint32(b[2:], crc32.Checksum(b[sequencesHeader:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// addSequences puts earlier batches before the last one of each producer, as a snapshot has it.
func (ps *producers) addSequences(b []byte) error {
	be := binary.BigEndian
	if len(b) < sequencesHeader || be.Uint16(b) != 0 {
		return fmt.Errorf("%d bytes do not begin with version 0", len(b))
	}
	if sum := crc32.Checksum(b[sequencesHeader:], crc32.MakeTable(crc32.Castagnoli)); sum != be.Uint32(b[2:]) {
		return fmt.Errorf("CRC %08x, its bytes give %08x", be.Uint32(b[2:]), sum)
	}
	for b = b[sequencesHeader:]; len(b) > 0; {
		if len(b) < sequencesProducer {
			return errors.New("ends inside a producer")
		}
		p, epoch, n := ps.get(int64(be.Uint64(b))), int16(be.Uint16(b[8:])), int(be.Uint16(b[10:]))
		if b = b[sequencesProducer:]; n >= duplicateWindow || len(b) < n*sequencesBatch {
			return fmt.Errorf("%d batches of a producer in %d bytes", n, len(b))
		}
		known := p != nil && p.epoch == epoch && p.known == 1
		var last sentBatch
		if known {
			last, _ = p.last()
			p.known = 0
		}
		for range n {
			if known {
				p.add(sentBatch{
					lastSequence: int32(be.Uint32(b)), lastOffset: int64(be.Uint64(b[4:])),
					offsetDelta: int32(be.Uint32(b[12:])), timestamp: int64(be.Uint64(b[16:])),
				})
			}
			b = b[sequencesBatch:]
		}
		if known {
			p.add(last)
		}
	}
	return nil
}

func (l *Log) sequencesPath(offset kafka.Offset) string {
	return filepath.Join(l.dir, fileName(offset, sequencesSuffix))
}

// loadSequencesLocked completes the producers' state as the snapshot at offset has it. Without the file only the last
// batches are known, as in Kafka.
func (l *Log) loadSequencesLocked(offset kafka.Offset) error {
	if !slices.Contains(l.sequences, offset) {
		return nil
	}
	b, err := vfs.ReadFile(l.fs, l.sequencesPath(offset))
	if notExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := l.producers.addSequences(b); err != nil {
		l.logger.Warn("earlier batches of producers cannot be read and are not known again when they come twice",
			"file", l.sequencesPath(offset), "err", err)
	}
	return nil
}

// removeSequencesLocked removes the file if drop holds for its offset.
func (l *Log) removeSequencesLocked(drop func(kafka.Offset) bool) error {
	var left []kafka.Offset
	var errs []error
	for _, offset := range l.sequences {
		if !drop(offset) {
			left = append(left, offset)
		} else if err := l.fs.Remove(l.sequencesPath(offset)); err != nil && !notExist(err) {
			errs = append(errs, err)
		}
	}
	l.sequences = left
	return errors.Join(errs...)
}
