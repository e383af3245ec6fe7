package cli

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"moldau/internal/batch"
)

// indexEntries reads an index of fixed entries up to the first one that is zero: the rest of a file has its full size and
// is not written yet. An entry that is not whole is an error, as it is for a broker.
func indexEntries(path string, width int) (base int64, entries [][]byte, err error) {
	base, err = strconv.ParseInt(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), 10, 64)
	if err != nil {
		return 0, nil, errors.New("the name is no offset")
	}
	all, err := os.ReadFile(path)
	if err != nil {
		return 0, nil, err
	}
	zero := make([]byte, width)
	for rest := all; len(rest) >= width; rest = rest[width:] {
		if string(rest[:width]) == string(zero) {
			break
		}
		entries = append(entries, rest[:width])
	}
	if len(all)%width != 0 {
		return 0, nil, fmt.Errorf("%d bytes are no multiple of %d", len(all), width)
	}
	return base, entries, nil
}

func logOf(index string) string { return strings.TrimSuffix(index, filepath.Ext(index)) + ".log" }

func (d *dump) index(path string) error {
	base, entries, err := indexEntries(path, 8)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		d.say("%s is empty.\n", path)
		return nil
	}
	previous := int64(-1)
	for _, e := range entries {
		offset, position := base+int64(binary.BigEndian.Uint32(e)), int64(binary.BigEndian.Uint32(e[4:]))
		if d.sanityOnly {
			if offset <= previous {
				return fmt.Errorf("offset %d follows %d", offset, previous)
			}
			previous = offset
			continue
		}
		last, err := batchAt(logOf(path), position, int64(d.maxMessage))
		if err != nil {
			return err
		}
		if last != offset {
			d.fault("Mismatches in %s: index offset: %d, log offset: %d", path, offset, last)
		}
		switch {
		case d.verifyOnly:
		case d.json:
			d.thing("index", object{{"offset", offset}, {"position", position}})
		default:
			fmt.Fprintf(d.out, "offset: %d position: %d\n", offset, position)
		}
	}
	if d.sanityOnly {
		d.passed()
	}
	return nil
}

var errFound = errors.New("found")

// batchAt returns the last offset of the batch at a position, -1 if there is none.
func batchAt(log string, position, maxBytes int64) (int64, error) {
	last := int64(-1)
	_, err := batches(log, position, position+maxBytes, func(b batch.Batch, _ int64) error {
		last = int64(b.LastOffset())
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return last, err
}

func (d *dump) timeIndex(path string) error {
	base, entries, err := indexEntries(path, 12)
	if err != nil {
		return err
	}
	maxima := make(map[int64]int64) // the largest timestamp of a batch by its last offset
	if !d.sanityOnly {
		if _, err := batches(logOf(path), 0, 1<<62, func(b batch.Batch, _ int64) error {
			maxima[int64(b.LastOffset())] = b.MaxTimestamp()
			return nil
		}); err != nil {
			return err
		}
	}
	previous := int64(-1)
	for _, e := range entries {
		timestamp, offset := int64(binary.BigEndian.Uint64(e)), base+int64(binary.BigEndian.Uint32(e[8:]))
		if timestamp <= previous && d.sanityOnly {
			return fmt.Errorf("timestamp %d follows %d", timestamp, previous)
		}
		if !d.sanityOnly {
			found, ok := maxima[offset]
			switch {
			case !ok:
				d.fault("Found no batch that ends at an offset of the time index in %s: %d", path, offset)
			case found != timestamp:
				d.fault("Found timestamp mismatch in %s: index timestamp: %d, log timestamp: %d", path, timestamp, found)
			case timestamp <= previous:
				d.fault("Found out of order timestamp in %s: index timestamp: %d, previously indexed timestamp: %d", path, timestamp, previous)
			}
			switch {
			case d.verifyOnly:
			case d.json:
				d.thing("timeindex", object{{"timestamp", timestamp}, {"offset", offset}})
			default:
				fmt.Fprintf(d.out, "timestamp: %d offset: %d\n", timestamp, offset)
			}
		}
		previous = timestamp
	}
	if d.sanityOnly {
		d.passed()
	}
	return nil
}

// snapshot shows the producers of a .snapshot: version, CRC-32C, count, then 46 bytes each.
func (d *dump) snapshot(path string) error {
	const header, width = 10, 46
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	be := binary.BigEndian
	switch {
	case len(b) < header:
		return fmt.Errorf("%d bytes are fewer than a header", len(b))
	case be.Uint16(b) != 1:
		return fmt.Errorf("version %d, want 1", be.Uint16(b))
	case crc32.Checksum(b[6:], crc32.MakeTable(crc32.Castagnoli)) != be.Uint32(b[2:]):
		return errors.New("the CRC does not match")
	case int64(len(b)) != header+int64(be.Uint32(b[6:]))*width:
		return fmt.Errorf("%d bytes do not hold %d producers", len(b), be.Uint32(b[6:]))
	}
	for e := range slices.Chunk(b[header:], width) {
		producer, epoch, coordinator := int64(be.Uint64(e)), int16(be.Uint16(e[8:])), int32(be.Uint32(e[34:]))
		transaction, timestamp := int64(be.Uint64(e[38:])), int64(be.Uint64(e[26:]))
		sequence, last, delta := int32(be.Uint32(e[10:])), int64(be.Uint64(e[14:])), int32(be.Uint32(e[22:]))
		if d.json {
			members := object{{"producerId", producer}, {"producerEpoch", int64(epoch)}, {"coordinatorEpoch", int64(coordinator)},
				{"currentTxnFirstOffset", nil}, {"lastTimestamp", timestamp}}
			if transaction >= 0 {
				members[3].value = transaction
			}
			if last >= 0 {
				members = append(members, member{"firstSequence", int64(firstSequence(sequence, delta))}, member{"lastSequence", int64(sequence)},
					member{"lastOffset", last}, member{"offsetDelta", int64(delta)})
			}
			d.thing("producer", members)
			continue
		}
		fmt.Fprintf(d.out, "producerId: %d producerEpoch: %d coordinatorEpoch: %d currentTxnFirstOffset: %s lastTimestamp: %d ",
			producer, epoch, coordinator, optional(transaction), timestamp)
		if last >= 0 {
			fmt.Fprintf(d.out, "firstSequence: %d lastSequence: %d lastOffset: %d offsetDelta: %d timestamp: %d",
				firstSequence(sequence, delta), sequence, last, delta, timestamp)
		}
		fmt.Fprintln(d.out)
	}
	return nil
}

// firstSequence counts back from the last one; sequences wrap from 2^31-1 to 0.
func firstSequence(last, delta int32) int32 { return int32((int64(last) - int64(delta)) & 0x7fffffff) }

func optional(n int64) string {
	if n < 0 {
		return "OptionalLong.empty"
	}
	return fmt.Sprintf("OptionalLong[%d]", n)
}

// txnIndex shows a .txnindex: aborted transactions of 34 bytes each.
func (d *dump) txnIndex(path string) error {
	const width = 34
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	be := binary.BigEndian
	for ; len(b) >= width; b = b[width:] {
		version, producer := int16(be.Uint16(b)), int64(be.Uint64(b[2:]))
		first, last, stable := int64(be.Uint64(b[10:])), int64(be.Uint64(b[18:])), int64(be.Uint64(b[26:]))
		if d.json {
			d.thing("abortedTransaction", object{{"version", int64(version)}, {"producerId", producer}, {"firstOffset", first}, {"lastOffset", last}, {"lastStableOffset", stable}})
			continue
		}
		fmt.Fprintf(d.out, "version: %d producerId: %d firstOffset: %d lastOffset: %d lastStableOffset: %d\n", version, producer, first, last, stable)
	}
	if len(b) > 0 {
		return fmt.Errorf("%d bytes at the end are no entry", len(b))
	}
	return nil
}
