package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// kmsg allocates an array of as many structs as the frame declares, if at least that many bytes are left. A struct is up
// to a hundred times larger than the one byte asked for, and unknown tagged fields go into a map of their own each. So
// guard walks over a body before kmsg sees it, adds up what decoding will allocate, and refuses more than a multiple.
const (
	// guardFromBytes is the size below which a body cannot do harm.
	guardFromBytes = 4 << 10
	// maxGrowth is how many bytes may be allocated per byte of the body. The most that honest requests need is about 11
	// (Metadata of topics with names of three letters).
	maxGrowth = 24
	// maxDecodedBytes is how many may be allocated for one request, whatever its length: five times what it takes to name
	// 100,000 partitions.
	maxDecodedBytes = 64 << 20
)

// What decoding allocates besides structs, in bytes, size classes and map overhead included.
const (
	pointerBytes  = 16  // a string behind a pointer
	firstTagBytes = 336 // a map with one group of slots
	nextTagBytes  = 80
)

// layout is how the body of a request is laid out in some versions. The text has one letter for each step:
//
//	8     eight bytes of numbers, booleans and ids
//	s     a string
//	p     a string that kmsg keeps behind a pointer
//	b     bytes
//	[56:  an array whose elements take 56 bytes of memory each; one element's layout follows, up to ]
//	<56:  a struct that may be null, 56 bytes of memory; its layout follows, up to >
//	t     tagged fields
type layout struct {
	from, to int16 // versions, both included
	text     string
}

// guard returns how many bytes decoding body allocates, 0 if body is too small to do harm. It is an error if that is far
// more than body is long, or if body is malformed.
func guard(req kmsg.Request, body []byte) (growth int, err error) {
	if len(body) < guardFromBytes || isPrivate(req.Key()) { // a private body is not decoded here
		return 0, nil
	}
	text, ok := layoutOf(req.Key(), req.GetVersion())
	if !ok {
		return 0, fmt.Errorf("%w: version %d of %s has no layout", ErrBadRequest, req.GetVersion(), kmsg.NameForKey(req.Key()))
	}
	budget := min(maxGrowth*len(body), maxDecodedBytes)
	g := weigher{rest: body, flexible: req.IsFlexible(), budget: budget}
	g.walk(text)
	switch {
	case g.bad:
		return 0, fmt.Errorf("%w: %s version %d ends early", ErrBadRequest, kmsg.NameForKey(req.Key()), req.GetVersion())
	case g.budget < 0:
		return 0, fmt.Errorf("%w: %d bytes of %s version %d would take more than %d bytes of memory",
			ErrBadRequest, len(body), kmsg.NameForKey(req.Key()), req.GetVersion(), budget)
	}
	return budget - g.budget, nil
}

func layoutOf(key, version int16) (string, bool) {
	if key < 0 || int(key) >= len(layouts) {
		return "", false
	}
	for _, l := range layouts[key] {
		if version >= l.from && version <= l.to {
			return l.text, true
		}
	}
	return "", false
}

// weigher walks over a body. It stops, with bad set or budget below zero, at the first thing that is wrong.
type weigher struct {
	rest     []byte
	flexible bool
	budget   int // bytes that decoding may still allocate
	bad      bool
}

func (g *weigher) stopped() bool { return g.bad || g.budget < 0 }

// walk follows text to its end or to the bracket that closes it, and returns what comes after.
func (g *weigher) walk(text string) (after string) {
	for text != "" && !g.stopped() {
		step, whole := text[0], text
		text = text[1:]
		switch step {
		case ' ': // between two numbers
		case 's':
			g.budget -= g.span(g.stringLen())
		case 'p':
			g.budget -= g.span(g.stringLen()) + pointerBytes
		case 'b':
			g.span(g.bytesLen()) // aliased, not copied
		case 't':
			g.tags()
		case '[':
			var memory int
			memory, text = number(text)
			text = g.array(memory, text[1:])
		case '<':
			var memory int
			memory, text = number(text)
			text = g.nullable(memory, text[1:])
		case ']', '>':
			return text
		default:
			var n int
			n, text = number(whole)
			g.span(n)
		}
	}
	return text
}

// array walks over the elements of an array and returns the text after it. text is the layout of one element.
func (g *weigher) array(memory int, text string) (after string) {
	n := g.arrayLen()
	g.budget -= n * memory
	for range n {
		if g.stopped() {
			return ""
		}
		after = g.walk(text)
	}
	if n == 0 {
		after = skip(text)
	}
	return after
}

// nullable walks over a struct that a byte below zero says is not there.
func (g *weigher) nullable(memory int, text string) (after string) {
	if len(g.rest) == 0 {
		g.bad = true
		return ""
	}
	there := int8(g.rest[0]) >= 0
	g.span(1)
	if !there {
		return skip(text)
	}
	g.budget -= memory
	return g.walk(text)
}

// skip returns what follows the bracket that closes text.
func skip(text string) string {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '[', '<':
			depth++
		case ']', '>':
			if depth == 0 {
				return text[i+1:]
			}
			depth--
		}
	}
	return ""
}

// number cuts a decimal number off text.
func number(text string) (n int, after string) {
	for text != "" && text[0] >= '0' && text[0] <= '9' {
		n = 10*n + int(text[0]-'0')
		text = text[1:]
	}
	return n, text
}

// span steps over n bytes and returns n, or 0 if they are not there.
func (g *weigher) span(n int) int {
	if n > len(g.rest) {
		g.bad = true
		return 0
	}
	g.rest = g.rest[n:]
	return n
}

// compact reads a length in the form of KIP-482: one more than it is, 0 for null.
func (g *weigher) compact() int {
	n, rest, ok := uvarint(g.rest)
	if !ok {
		g.bad = true
		return 0
	}
	g.rest = rest
	return max(0, int(n)-1)
}

// stringLen, bytesLen and arrayLen read a length; null counts as 0, as it allocates nothing.
func (g *weigher) stringLen() int {
	if g.flexible {
		return g.compact()
	}
	if len(g.rest) < 2 {
		g.bad = true
		return 0
	}
	n := int16(binary.BigEndian.Uint16(g.rest))
	g.rest = g.rest[2:]
	return max(0, int(n))
}

func (g *weigher) bytesLen() int {
	if g.flexible {
		return g.compact()
	}
	if len(g.rest) < 4 {
		g.bad = true
		return 0
	}
	n := int32(binary.BigEndian.Uint32(g.rest))
	g.rest = g.rest[4:]
	return max(0, int(n))
}

func (g *weigher) arrayLen() int {
	n := g.bytesLen()
	if n > len(g.rest) { // no element is shorter than a byte
		g.bad = true
		return 0
	}
	return n
}

// tags steps over tagged fields. Those that the schema names are taken for unknown ones, which cost more; what a value
// can grow to is bounded as for an array of strings.
func (g *weigher) tags() {
	count, rest, ok := uvarint(g.rest)
	if !ok {
		g.bad = true
		return
	}
	g.rest = rest
	cost := firstTagBytes
	for range count {
		if _, g.rest, ok = uvarint(g.rest); !ok {
			g.bad = true
			return
		}
		size, rest, ok := uvarint(g.rest)
		if !ok || uint64(size) > uint64(len(rest)) {
			g.bad = true
			return
		}
		g.rest = rest[size:]
		if g.budget -= cost + 16*int(size); g.budget < 0 {
			return
		}
		cost = nextTagBytes
	}
}
