package cli

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// recordFormatter writes records as Kafka's DefaultMessageFormatter does, whose properties it takes.
type recordFormatter struct {
	timestamp, partition, offset, delivery, epoch, headers, key, value bool
	keySeparator, lineSeparator, headersSeparator                      string
	null                                                               []byte
	decodeKey, decodeValue, decodeHeaders                              decoder
}

// decoder turns bytes of one of Java's serializers into text. nil leaves them as they are.
type decoder func(b []byte) (string, error)

func newRecordFormatter(props map[string]string) (*recordFormatter, error) {
	f := &recordFormatter{value: true, keySeparator: "\t", lineSeparator: "\n", headersSeparator: ",", null: []byte("null")}
	flags := map[string]*bool{
		"print.timestamp": &f.timestamp, "print.partition": &f.partition, "print.offset": &f.offset, "print.delivery": &f.delivery,
		"print.epoch": &f.epoch, "print.headers": &f.headers, "print.key": &f.key, "print.value": &f.value,
	}
	for _, name := range sortedKeys(props) {
		value := props[name]
		var err error
		switch name {
		case "key.separator":
			f.keySeparator = value
		case "line.separator":
			f.lineSeparator = value
		case "headers.separator":
			f.headersSeparator = value
		case "null.literal":
			f.null = []byte(value)
		case "key.deserializer":
			f.decodeKey, err = javaDecoder(value)
		case "value.deserializer":
			f.decodeValue, err = javaDecoder(value)
		case "headers.deserializer":
			f.decodeHeaders, err = javaDecoder(value)
		default:
			flag := flags[name]
			if flag == nil {
				return nil, fmt.Errorf("%s is not a property of the formatter: want %s, key.separator, line.separator, headers.separator, null.literal, "+
					"key.deserializer, value.deserializer or headers.deserializer", name, strings.Join(sortedKeys(flags), ", "))
			}
			*flag = strings.EqualFold(strings.TrimSpace(value), "true")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return f, nil
}

// write writes one record. Columns are parted by the key separator, and the line separator ends the last one.
func (f *recordFormatter) write(w io.Writer, r *kgo.Record) error {
	var columns [][]byte
	add := func(on bool, format string, args ...any) {
		if on {
			columns = append(columns, fmt.Appendf(nil, format, args...))
		}
	}
	add(f.timestamp, "%s", timestampColumn(r, ""))
	add(f.partition, "Partition:%d", r.Partition)
	add(f.offset, "Offset:%d", r.Offset)
	add(f.delivery, "Delivery:NOT_PRESENT")
	if r.LeaderEpoch >= 0 {
		add(f.epoch, "Epoch:%d", r.LeaderEpoch)
	} else {
		add(f.epoch, "Epoch:NOT_PRESENT")
	}
	if f.headers {
		list := []byte("NO_HEADERS")
		if len(r.Headers) > 0 {
			list = nil
		}
		for i, h := range r.Headers {
			value, err := f.decoded(h.Value, f.decodeHeaders)
			if err != nil {
				return fmt.Errorf("header %s of %s-%d at offset %d: %w", h.Key, r.Topic, r.Partition, r.Offset, err)
			}
			if i > 0 {
				list = append(list, f.headersSeparator...)
			}
			list = append(append(append(list, h.Key...), ':'), value...)
		}
		columns = append(columns, list)
	}
	for _, part := range []struct {
		on     bool
		name   string
		bytes  []byte
		decode decoder
	}{{f.key, "key", r.Key, f.decodeKey}, {f.value, "value", r.Value, f.decodeValue}} {
		if !part.on {
			continue
		}
		text, err := f.decoded(part.bytes, part.decode)
		if err != nil {
			return fmt.Errorf("%s of %s-%d at offset %d: %w", part.name, r.Topic, r.Partition, r.Offset, err)
		}
		columns = append(columns, text)
	}
	if len(columns) == 0 {
		return nil
	}
	_, err := w.Write(append(bytes.Join(columns, []byte(f.keySeparator)), f.lineSeparator...))
	return err
}

// timestampColumn is a record's time as Kafka's formatters show it, with end behind it.
func timestampColumn(r *kgo.Record, end string) string {
	ms := r.Timestamp.UnixMilli()
	switch {
	case ms < 0:
		return "NO_TIMESTAMP" + end
	case r.Attrs.TimestampType() == 1:
		return fmt.Sprintf("LogAppendTime:%d%s", ms, end)
	}
	return fmt.Sprintf("CreateTime:%d%s", ms, end)
}

func (f *recordFormatter) decoded(b []byte, decode decoder) ([]byte, error) {
	if b == nil {
		return f.null, nil
	}
	if decode == nil {
		return b, nil
	}
	text, err := decode(b)
	return []byte(text), err
}

// javaDecoder is what stands in for one of the deserializers of Kafka's own clients.
func javaDecoder(class string) (decoder, error) {
	sized := func(n int, show func(b []byte) string) decoder {
		return func(b []byte) (string, error) {
			if len(b) != n {
				return "", fmt.Errorf("%d bytes, where %s wants %d", len(b), class[strings.LastIndexByte(class, '.')+1:], n)
			}
			return show(b), nil
		}
	}
	name, ours := strings.CutPrefix(class, "org.apache.kafka.common.serialization.")
	if !ours && strings.Contains(class, ".") {
		name = ""
	}
	switch strings.TrimSuffix(name, "Deserializer") {
	case "String", "ByteArray", "Bytes", "ByteBuffer":
		return nil, nil
	case "Short":
		return sized(2, func(b []byte) string { return strconv.Itoa(int(int16(binary.BigEndian.Uint16(b)))) }), nil
	case "Integer":
		return sized(4, func(b []byte) string { return strconv.Itoa(int(int32(binary.BigEndian.Uint32(b)))) }), nil
	case "Long":
		return sized(8, func(b []byte) string { return strconv.FormatInt(int64(binary.BigEndian.Uint64(b)), 10) }), nil
	case "Float":
		return sized(4, func(b []byte) string {
			return strconv.FormatFloat(float64(math.Float32frombits(binary.BigEndian.Uint32(b))), 'g', -1, 32)
		}), nil
	case "Double":
		return sized(8, func(b []byte) string {
			return strconv.FormatFloat(math.Float64frombits(binary.BigEndian.Uint64(b)), 'g', -1, 64)
		}), nil
	case "Boolean":
		return sized(1, func(b []byte) string { return strconv.FormatBool(b[0] != 0) }), nil
	case "UUID":
		return func(b []byte) (string, error) { return string(b), nil }, nil // Java's serializer writes the text
	}
	return nil, fmt.Errorf("%s cannot be loaded here: want one of org.apache.kafka.common.serialization (String, Short, Integer, Long, Float, Double, Boolean, UUID, ByteArray)", class)
}

// recordJSON is a record as one line of JSON. Bytes that are no text are base64, and then say so.
type recordJSON struct {
	Topic         string       `json:"topic"`
	Partition     int32        `json:"partition"`
	Offset        int64        `json:"offset"`
	Timestamp     int64        `json:"timestamp"`
	TimestampType string       `json:"timestampType"`
	Headers       []headerJSON `json:"headers,omitempty"`
	Key           any          `json:"key"`
	Value         any          `json:"value"`
}

type headerJSON struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

func newRecordJSON(r *kgo.Record) recordJSON {
	j := recordJSON{r.Topic, r.Partition, r.Offset, r.Timestamp.UnixMilli(), "CreateTime", nil, jsonBytes(r.Key), jsonBytes(r.Value)}
	if r.Attrs.TimestampType() == 1 {
		j.TimestampType = "LogAppendTime"
	}
	for _, h := range r.Headers {
		j.Headers = append(j.Headers, headerJSON{h.Key, jsonBytes(h.Value)})
	}
	return j
}

// offsetReset is where reading starts that has no better place.
func offsetReset(fromBeginning bool) kgo.Offset {
	if fromBeginning {
		return kgo.NewOffset().AtStart()
	}
	return kgo.NewOffset().AtEnd()
}

// jsonBytes is null, a string, or an object that holds bytes which are no UTF-8.
func jsonBytes(b []byte) any {
	switch {
	case b == nil:
		return nil
	case utf8.Valid(b):
		return string(b)
	}
	return struct {
		Base64 []byte `json:"base64"`
	}{b}
}
