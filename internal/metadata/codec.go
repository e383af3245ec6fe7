package metadata

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"moldau/internal/kafka"
)

var errShort = errors.New("record ends early")

// codec walks the fields of a record, writing them to b or reading them from b. Kafka's flexible encoding: lengths are
// uvarints of length+1, 0 is null, and every struct ends with its tagged fields.
type codec struct {
	reading bool
	version int16
	b       []byte // writing: what was written; reading: what is left
	err     error  // reading: the first fault; everything read after it is zero
}

func (c *codec) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.b = nil
}

// take returns the next n bytes; nil, and a fault, when they are not there.
func (c *codec) take(n int) []byte {
	if n > len(c.b) {
		c.fail(errShort)
		return nil
	}
	p := c.b[:n]
	c.b = c.b[n:]
	return p
}

func (c *codec) uvarint(v uint64) uint64 {
	if !c.reading {
		c.b = binary.AppendUvarint(c.b, v)
		return v
	}
	v, n := binary.Uvarint(c.b)
	if n <= 0 || v > math.MaxUint32 { // Kafka's unsigned varints have 32 bits
		c.fail(errShort)
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *codec) bool(p *bool) {
	var v int8
	if *p {
		v = 1
	}
	c.int8(&v)
	if c.reading { // what is encoded may be read by others meanwhile
		*p = v != 0
	}
}

func (c *codec) int8(p *int8) {
	if !c.reading {
		c.b = append(c.b, byte(*p))
	} else if b := c.take(1); b != nil {
		*p = int8(b[0])
	}
}

func (c *codec) int16(p *int16) {
	v := uint16(*p)
	c.uint16(&v)
	if c.reading {
		*p = int16(v)
	}
}

func (c *codec) uint16(p *uint16) {
	if !c.reading {
		c.b = binary.BigEndian.AppendUint16(c.b, *p)
	} else if b := c.take(2); b != nil {
		*p = binary.BigEndian.Uint16(b)
	}
}

func (c *codec) int32(p *int32) {
	if !c.reading {
		c.b = binary.BigEndian.AppendUint32(c.b, uint32(*p))
	} else if b := c.take(4); b != nil {
		*p = int32(binary.BigEndian.Uint32(b))
	}
}

func (c *codec) int64(p *int64) {
	if !c.reading {
		c.b = binary.BigEndian.AppendUint64(c.b, uint64(*p))
	} else if b := c.take(8); b != nil {
		*p = int64(binary.BigEndian.Uint64(b))
	}
}

func (c *codec) float64(p *float64) {
	v := int64(math.Float64bits(*p))
	c.int64(&v)
	if c.reading {
		*p = math.Float64frombits(uint64(v))
	}
}

func (c *codec) uuid(p *kafka.UUID) {
	if !c.reading {
		c.b = append(c.b, p[:]...)
	} else if b := c.take(len(p)); b != nil {
		copy(p[:], b)
	}
}

// length walks a compact length: n+1, or 0 for null. Each element takes at least min bytes, so that a lying length
// fails here and not in an allocation.
func (c *codec) length(n int, null bool, min int) (length int, isNull bool) {
	if !c.reading {
		if null {
			c.uvarint(0)
			return 0, true
		}
		c.uvarint(uint64(n) + 1)
		return n, false
	}
	v := c.uvarint(0)
	if v == 0 {
		return 0, true
	}
	if v-1 > uint64(len(c.b)/max(min, 1)) {
		c.fail(errShort)
		return 0, false
	}
	return int(v - 1), false
}

func (c *codec) string(p *string) {
	s := p
	c.nullableString(&s)
	if c.reading {
		if s == nil {
			c.fail(errors.New("null in a field that can not be null"))
			return
		}
		*p = *s
	}
}

func (c *codec) nullableString(p **string) {
	if !c.reading {
		if *p == nil {
			c.length(0, true, 1)
			return
		}
		c.length(len(**p), false, 1)
		c.b = append(c.b, **p...)
		return
	}
	n, null := c.length(0, false, 1)
	if null {
		*p = nil
		return
	}
	s := string(c.take(n))
	*p = &s
}

func (c *codec) bytes(p *[]byte) {
	n, null := c.length(len(*p), false, 1)
	if !c.reading {
		c.b = append(c.b, *p...)
		return
	}
	if null {
		c.fail(errors.New("null in a field that can not be null"))
		return
	}
	*p = slices.Clone(c.take(n))
}

// array walks a compact array; a nil slice is null where the field can be null, and empty where it can not. Reading
// leaves an empty array as nil in the latter case, so that values compare equal after a round trip.
func array[T any](c *codec, p *[]T, nullable bool, min int, each func(*T)) {
	n, null := c.length(len(*p), nullable && *p == nil, min)
	if c.reading {
		*p = nil
		switch {
		case null && !nullable:
			c.fail(errors.New("null in a field that can not be null"))
		case !null && (nullable || n > 0):
			*p = make([]T, n)
		}
	}
	for i := range *p {
		each(&(*p)[i])
	}
}

func (c *codec) int32s(p *[]int32)         { array(c, p, false, 4, c.int32) }
func (c *codec) nullableInt32s(p *[]int32) { array(c, p, true, 4, c.int32) }
func (c *codec) uuids(p *[]kafka.UUID)     { array(c, p, false, 16, c.uuid) }
func (c *codec) nullableUUIDs(p *[]kafka.UUID) {
	array(c, p, true, 16, c.uuid)
}

// tagged is one optional field of a struct: written when set, and in ascending tag order.
type tagged struct {
	tag  uint32
	set  bool // writing: whether the value differs from the default
	walk func()
}

func (c *codec) tags(fields ...tagged) {
	if !c.reading {
		n := 0
		for _, f := range fields {
			if f.set {
				n++
			}
		}
		c.uvarint(uint64(n))
		for _, f := range fields {
			if !f.set {
				continue
			}
			outer := c.b
			c.b = nil
			f.walk()
			value := c.b
			c.b = outer
			c.uvarint(uint64(f.tag))
			c.uvarint(uint64(len(value)))
			c.b = append(c.b, value...)
		}
		return
	}
	for range c.uvarint(0) {
		tag, size := c.uvarint(0), c.uvarint(0)
		value := c.take(int(size))
		if c.err != nil {
			return
		}
		rest := c.b
		c.b = value
		for _, f := range fields {
			if uint64(f.tag) == tag {
				f.walk()
				if len(c.b) > 0 {
					c.fail(errors.New("tagged field is longer than its value"))
				}
			}
		}
		if c.err != nil {
			return
		}
		c.b = rest
	}
}
