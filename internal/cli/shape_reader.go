package cli

import (
	"encoding/binary"
	"errors"
	"math"

	"moldau/internal/kafka"
)

// shapeReader decodes Kafka's message encoding by a shape.
type shapeReader struct {
	b        []byte // what is left
	version  int16
	flexible bool
	err      error // the first fault; all that is read after it is zero
}

var errRecordShort = errors.New("the record ends early")

// take returns the next n bytes, or as many zeroes when they are not there: at most eight, since nobody asks for more
// without having looked.
func (r *shapeReader) take(n int) []byte {
	if n > len(r.b) {
		r.b, r.err = nil, errRecordShort
		return make([]byte, 8)
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *shapeReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > math.MaxInt32 {
		r.b, r.err = nil, errRecordShort
		return 0
	}
	r.b = r.b[n:]
	return v
}

// length reads how long a string, bytes or array is; -1 is null. Each element has at least one byte, so a length that
// lies is found here.
func (r *shapeReader) length(wide bool) int {
	n := 0
	switch {
	case r.flexible:
		n = int(r.uvarint()) - 1
	case wide:
		n = int(int32(binary.BigEndian.Uint32(r.take(4))))
	default:
		n = int(int16(binary.BigEndian.Uint16(r.take(2))))
	}
	if n > len(r.b) {
		r.b, r.err = nil, errRecordShort
		return 0
	}
	return max(n, -1)
}

// object reads a struct, and the tagged fields that end it in flexible versions. A tagged field that is not there has its
// default value, which Kafka does not show either.
func (r *shapeReader) object(fields []field) object {
	values := make([]any, len(fields))
	there := make([]bool, len(fields))
	for i := range fields {
		if f := &fields[i]; f.tag < 0 && f.versions.has(r.version) {
			values[i], there[i] = r.value(f, f.arrays), true
		}
	}
	if r.flexible {
		for range r.uvarint() {
			tag, size := int64(r.uvarint()), int(r.uvarint())
			if size > len(r.b) || r.err != nil {
				r.b, r.err = nil, errRecordShort
				break
			}
			rest := r.b[size:]
			r.b = r.b[:size]
			for i := range fields {
				if f := &fields[i]; f.tag == tag && f.versions.has(r.version) {
					values[i], there[i] = r.value(f, f.arrays), true
				}
			}
			if r.err != nil {
				break
			}
			r.b = rest
		}
	}
	o := object{}
	for i, f := range fields {
		if there[i] {
			o = append(o, member{f.name, values[i]})
		}
	}
	return o
}

func (r *shapeReader) value(f *field, arrays int) any {
	be := binary.BigEndian
	if arrays > 0 {
		n := r.length(true)
		if n < 0 {
			return nil
		}
		list := []any{}
		for i := 0; i < n && r.err == nil; i++ {
			list = append(list, r.value(f, arrays-1))
		}
		return list
	}
	switch f.kind {
	case "struct":
		// Whether a struct is null is one signed byte, but in tagged fields a number like that of lengths.
		if f.nullable && (f.tag >= 0 && r.uvarint() == 0 || f.tag < 0 && int8(r.take(1)[0]) < 0) {
			return nil
		}
		return r.object(f.fields)
	case "string", "bytes":
		n := r.length(f.kind == "bytes")
		switch {
		case n < 0:
			return nil
		case n > 0 && f.kind == "bytes":
			return r.take(n)
		case n > 0:
			return string(r.take(n))
		case f.kind == "bytes":
			return []byte{}
		}
		return ""
	case "uuid":
		var u kafka.UUID
		copy(u[:], r.take(len(u)))
		return u
	case "bool":
		return r.take(1)[0] != 0
	case "int8":
		return int64(int8(r.take(1)[0]))
	case "int16":
		return int64(int16(be.Uint16(r.take(2))))
	case "uint16":
		return int64(be.Uint16(r.take(2)))
	case "int32":
		return int64(int32(be.Uint32(r.take(4))))
	case "int64":
		return int64(be.Uint64(r.take(8)))
	case "float64":
		return math.Float64frombits(be.Uint64(r.take(8)))
	}
	r.err = errors.New("a field of kind " + f.kind)
	return nil
}
