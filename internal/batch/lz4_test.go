package batch

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kerr"
)

// lz4Contents are what blocks are packed from here: what people send, and what packs best and worst.
func lz4Contents() map[string][]byte {
	rng := rand.New(rand.NewPCG(5, 6))
	noise := make([]byte, lz4BlockBytes)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	var documents, numbers, sparse []byte
	words := []string{"order", "customer", "delivered", "pending", "Amsterdam", "warehouse", "returned", "München"}
	for i := range 1 << 10 {
		documents = fmt.Appendf(documents, `{"id":%d,"state":%q,"place":%q,"amount":%d.%02d}`+"\n", 100_000+i, words[rng.IntN(4)], words[4+rng.IntN(4)], rng.IntN(500), rng.IntN(100))
		numbers = fmt.Appendf(numbers, "%d,", rng.IntN(1_000_000))
		sparse = append(append(sparse, "the same header each time "...), noise[i*40:i*40+40]...)
	}
	messages, err := batchOf(noise).Messages(1, DownOptions{})
	if err != nil {
		panic(err)
	}
	contents := map[string][]byte{
		"noise": noise, "zeros": make([]byte, lz4BlockBytes), "documents": documents, "numbers": numbers,
		"sparse": sparse, "messages": messages,
	}
	for name, c := range contents {
		contents[name] = c[:min(len(c), lz4BlockBytes)]
	}
	return contents
}

// batchOf has records of 100 bytes.
func batchOf(values []byte) Batch {
	bu := NewBuilder(BuildOptions{})
	for ; len(values) >= 100; values = values[100:] {
		bu.Add(Record{Timestamp: 1_700_000_000_000, Value: values[:100]})
	}
	return bu.Build()
}

// TestLZ4LevelNine: Kafka's default level is the fast compressor.
func TestLZ4LevelNine(t *testing.T) {
	src := lz4Contents()["documents"]
	packed := map[int]int{}
	for _, level := range []int{0, 8, 9, 10} {
		b, err := Compress(LZ4, level, src)
		if err != nil {
			t.Fatal(err)
		}
		packed[level] = len(b)
	}
	if packed[9] != packed[0] || packed[8] >= packed[9] || packed[10] >= packed[9] {
		t.Errorf("bytes by level: %v", packed)
	}
}

// TestLZ4Frames: what other libraries write.
func TestLZ4Frames(t *testing.T) {
	src := bytes.Repeat(lz4Contents()["documents"], 9)
	for _, size := range []lz4.BlockSize{lz4.Block64Kb, lz4.Block256Kb, lz4.Block1Mb, lz4.Block4Mb} {
		for _, options := range [][]lz4.Option{
			{lz4.ChecksumOption(false)}, {lz4.ChecksumOption(true)}, {lz4.BlockChecksumOption(true)}, {lz4.SizeOption(uint64(len(src)))},
		} {
			var b bytes.Buffer
			w := lz4.NewWriter(&b)
			if err := w.Apply(append(options, lz4.BlockSizeOption(size))...); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(src); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			frame := b.Bytes()
			if got, err := Decompress(LZ4, frame, len(src)); err != nil || !bytes.Equal(got, src) {
				t.Errorf("blocks of %v, % x: %d bytes of %d, %v", size, frame[:7], len(got), len(src), err)
			}
			if got, err := Decompress(LZ4, append(frame, "what follows"...), len(src)); err != nil || !bytes.Equal(got, src) {
				t.Errorf("blocks of %v, % x, with something behind: %d bytes of %d, %v", size, frame[:7], len(got), len(src), err)
			}
			for n := 0; n < len(frame)-8; n += 1 + n/2 {
				if _, err := Decompress(LZ4, frame[:n], len(src)); !errors.Is(err, kerr.InvalidRecord) {
					t.Errorf("blocks of %v, % x, the first %d bytes: %v", size, frame[:min(n, 7)], n, err)
				}
			}
			if frame[4]&lz4BlockSums != 0 {
				at := 7 + 4 + int(binary.LittleEndian.Uint32(frame[7:]))
				frame[at] ^= 1
				if _, err := Decompress(LZ4, frame, len(src)); !errors.Is(err, kerr.InvalidRecord) {
					t.Errorf("blocks of %v with a wrong checksum: %v", size, err)
				}
			}
		}
	}
	ours, err := Compress(LZ4, 0, src)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(lz4.NewReader(bytes.NewReader(ours))); err != nil || !bytes.Equal(got, src) {
		t.Errorf("the library reads %d of %d bytes of ours: %v", len(got), len(src), err)
	}
}

// TestLZ4FramesByHand: blocks that depend on the one before, and descriptors that mean nothing.
func TestLZ4FramesByHand(t *testing.T) {
	frame := func(flags, size byte, blocks ...string) []byte {
		b := binary.LittleEndian.AppendUint32(nil, lz4Magic)
		b = append(b, flags, size)
		b = append(b, lz4Checksum(b[4:]))
		for _, block := range blocks {
			b = append(b, block...)
		}
		return append(b, 0, 0, 0, 0)
	}
	const stored, match = "\x08\x00\x00\x80abcdefgh", "\x0a\x00\x00\x00\x14x\x09\x00\x50-tail" // eight bytes from nine before
	if got, err := Decompress(LZ4, frame(0x40, 0x40, stored, match), 100); err != nil || string(got) != "abcdefghxabcdefgh-tail" {
		t.Errorf("dependent blocks: %q, %v", got, err)
	}
	for what, bad := range map[string][]byte{
		"a match before the block":        frame(0x60, 0x40, stored, match),
		"a match before the frame":        frame(0x40, 0x40, match),
		"a dictionary":                    frame(0x61, 0x40, stored),
		"version 2":                       frame(0xa0, 0x40, stored),
		"a reserved flag":                 frame(0x62, 0x40, stored),
		"a size of blocks that is none":   frame(0x60, 0x30, stored),
		"a reserved bit beside that size": frame(0x60, 0xc0, stored),
		"a block that is too large":       frame(0x60, 0x40, "\x01\x00\x01\x80"+string(make([]byte, 65537))),
		"another magic number":            append([]byte{3}, frame(0x60, 0x40, stored)[1:]...),
		"nothing":                         {},
	} {
		if got, err := Decompress(LZ4, bad, 1<<20); !errors.Is(err, kerr.InvalidRecord) || errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

func TestXXH32(t *testing.T) {
	for text, want := range map[string]uint32{
		"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff, "0123456789abcdef": 0xc2c45b69, "Nobody inspects the spammish repetition": 0xe2293b2f,
	} {
		if got := xxh32([]byte(text)); got != want {
			t.Errorf("xxh32 of %q is %08x, want %08x", text, got, want)
		}
	}
}

// FuzzLZ4Frame: no frame makes it panic or take much memory, and what the library reads it reads alike.
func FuzzLZ4Frame(f *testing.F) {
	for _, src := range lz4Contents() {
		packed, err := Compress(LZ4, 0, src[:min(len(src), 3000)])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		const limit = 1 << 20
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := Decompress(LZ4, frame, limit)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
			t.Fatalf("%d bytes of memory for %d", took, len(frame))
		}
		if errors.Is(err, ErrTooLarge) || len(frame) < 4 || binary.LittleEndian.Uint32(frame) != lz4Magic {
			return // the library knows other frames
		}
		var want bytes.Buffer // of what gives neither bytes nor an end for ever, bufio has enough some time
		_, theirs := io.Copy(&want, bufio.NewReader(io.LimitReader(lz4.NewReader(bytes.NewReader(frame)), limit+1)))
		if theirs == nil && (err != nil || !bytes.HasPrefix(want.Bytes(), got)) { // it reads the frames that follow, too
			t.Fatalf("%d bytes, %v; the library reads %d", len(got), err, want.Len())
		}
	})
}
