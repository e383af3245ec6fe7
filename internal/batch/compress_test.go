package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestCodecsRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	noise := make([]byte, 100_000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	for codec := None; codec <= Zstd; codec++ {
		for name, src := range map[string][]byte{"nothing": {}, "a byte": {7}, "zeros": make([]byte, 200_000), "noise": noise,
			"one xerial block": make([]byte, xerialBlockBytes), "text": bytes.Repeat([]byte("hello kafka "), 5000)} {
			for _, level := range []int{0, 1, 9} {
				packed, err := Compress(codec, level, src)
				if err != nil {
					t.Fatalf("%v level %d, %s: %v", codec, level, name, err)
				}
				got, err := Decompress(codec, packed, len(src))
				if err != nil || !bytes.Equal(got, src) {
					t.Fatalf("%v level %d, %s: %d bytes of %d, %v", codec, level, name, len(got), len(src), err)
				}
				if len(src) > 0 {
					if _, err := Decompress(codec, packed, len(src)-1); !errors.Is(err, ErrTooLarge) {
						t.Fatalf("%v level %d, %s: limit one below the size: %v", codec, level, name, err)
					}
				}
			}
		}
	}
}

func TestCompressTakesEveryLevelOfKafka(t *testing.T) {
	src := bytes.Repeat([]byte("0123456789"), 500)
	for codec, levels := range map[Codec]int{Gzip: 9, LZ4: 17, Zstd: 22} {
		for level := 1; level <= levels; level++ {
			packed, err := Compress(codec, level, src)
			if err != nil || len(packed) > len(src)/4 {
				t.Errorf("%v level %d: %d of %d bytes, %v", codec, level, len(packed), len(src), err)
			}
		}
	}
	if _, err := Compress(Gzip, 10, src); err == nil {
		t.Error("gzip took level 10")
	}
}

func TestSnappyFramings(t *testing.T) {
	src := bytes.Repeat([]byte("snappy in two framings "), 4000)
	plain := snappy.Encode(nil, src)
	if got, err := Decompress(Snappy, plain, len(src)); err != nil || !bytes.Equal(got, src) {
		t.Fatalf("plain: %v", err)
	}
	// Two blocks, laid out by hand.
	xerial := []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1,
		0, 0, 0, 5, 3, 2 << 2, 'a', 'b', 'c', 0, 0, 0, 3, 1, 0, 'd'}
	if got, err := Decompress(Snappy, xerial, 4); err != nil || string(got) != "abcd" {
		t.Fatalf("xerial: %q, %v", got, err)
	}
	packed, err := Compress(Snappy, 0, src)
	if err != nil || !bytes.HasPrefix(packed, xerial[:16]) {
		t.Fatalf("written as %x…, %v", packed[:20], err)
	}
	for n := 1; n < len(xerial); n++ {
		if _, err := Decompress(Snappy, xerial[:n], 100); n != 16 && n != 25 && !errors.Is(err, kerr.InvalidRecord) {
			t.Errorf("first %d bytes: %v", n, err)
		}
	}
}

func TestDecompressRefusesRubbish(t *testing.T) {
	for codec := Gzip; codec <= Zstd; codec++ {
		packed, err := Compress(codec, 0, bytes.Repeat([]byte("abcdefgh"), 1000))
		if err != nil {
			t.Fatal(err)
		}
		for _, src := range [][]byte{[]byte("rubbish, not compressed"), packed[:len(packed)/2]} {
			if got, err := Decompress(codec, src, 1<<20); !errors.Is(err, kerr.InvalidRecord) {
				t.Errorf("%v: %d bytes, %v", codec, len(got), err)
			}
		}
	}
	if _, err := Decompress(Codec(5), nil, 1); !errors.Is(err, kerr.UnsupportedCompressionType) {
		t.Error(err)
	}
}

func TestZstdTakesTheWindowOfTheHighestLevel(t *testing.T) {
	frame := zstdBomb(1)
	frame[5] = (27 - 10) << 3 // window 128 MiB
	if out, err := Decompress(Zstd, frame, 1<<20); err != nil || len(out) != 128<<10 {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	frame[5] = (28 - 10) << 3
	if _, err := Decompress(Zstd, frame, 1<<20); !errors.Is(err, kerr.InvalidRecord) {
		t.Errorf("window of 256 MiB: %v", err)
	}
}

// zstdBomb is n blocks that each say "128 KiB of zeros" in four bytes, after a header that declares a window of 2 MiB.
func zstdBomb(n int) []byte {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58} // no content size, window 2 MiB
	for i := range n {
		block := uint32(128<<10)<<3 | 1<<1
		if i == n-1 {
			block |= 1
		}
		b = append(b, byte(block), byte(block>>8), byte(block>>16), 0)
	}
	return b
}

func TestBombsStopAtTheLimit(t *testing.T) {
	const limit = 2 << 20
	zeros := make([]byte, 1<<24)
	bombs := map[Codec][]byte{Zstd: zstdBomb(1 << 13)} // 1 GiB
	for _, codec := range []Codec{Gzip, LZ4, Snappy} {
		packed, err := Compress(codec, 0, zeros)
		if err != nil {
			t.Fatal(err)
		}
		bombs[codec] = packed
	}
	var m runtime.MemStats
	for codec, bomb := range bombs {
		runtime.ReadMemStats(&m)
		before := m.TotalAlloc
		_, err := Decompress(codec, bomb, limit)
		runtime.ReadMemStats(&m)
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%v: %v", codec, err)
		}
		if got := m.TotalAlloc - before; got > 8*limit {
			t.Errorf("%v: a bomb of %d bytes made us allocate %d", codec, len(bomb), got)
		}
	}
	if len(bombs[Zstd]) > 40<<10 {
		t.Error("the zstd bomb is no bomb")
	}
	// The bomb is well formed: with room enough a short one opens.
	r, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if out, err := r.DecodeAll(zstdBomb(8), nil); err != nil || len(out) != 1<<20 {
		t.Errorf("short bomb: %d bytes, %v", len(out), err)
	}
}

func TestSnappyDoesNotTrustDeclaredSize(t *testing.T) {
	lie := binary.AppendUvarint(nil, 1<<30)
	lie = append(lie, 0, 'x')
	if _, err := Decompress(Snappy, lie, 1<<31-1); !errors.Is(err, kerr.InvalidRecord) || errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
}
