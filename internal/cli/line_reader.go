package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// lineReader makes records of lines: headers, key and value, each only if it was asked for. Its properties are those of
// Kafka's LineMessageReader.
type lineReader struct {
	in   *bufio.Reader
	line int

	parseKey, parseHeaders, ignoreError                                   bool
	keySeparator, headersDelimiter, headersSeparator, headersKeySeparator string
	null                                                                  *string
}

func newLineReader(in io.Reader, props map[string]string) (*lineReader, error) {
	r := &lineReader{in: bufio.NewReaderSize(in, 64<<10), keySeparator: "\t", headersDelimiter: "\t", headersSeparator: ",", headersKeySeparator: ":"}
	for _, name := range sortedKeys(props) {
		value := props[name]
		isTrue := strings.EqualFold(strings.TrimSpace(value), "true")
		switch name {
		case "parse.key":
			r.parseKey = isTrue
		case "parse.headers":
			r.parseHeaders = isTrue
		case "ignore.error":
			r.ignoreError = isTrue
		case "key.separator":
			r.keySeparator = value
		case "headers.delimiter":
			r.headersDelimiter = value
		case "headers.separator":
			r.headersSeparator = value
		case "headers.key.separator":
			r.headersKeySeparator = value
		case "null.marker":
			r.null = &value
		default:
			return nil, fmt.Errorf("%s is not a property of the reader: want parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, headers.key.separator, ignore.error or null.marker", name)
		}
	}
	separators := []struct{ name, value string }{
		{"headers.delimiter", r.headersDelimiter}, {"headers.separator", r.headersSeparator}, {"headers.key.separator", r.headersKeySeparator},
	}
	for i, s := range separators {
		for _, other := range separators[i+1:] {
			if s.value == other.value {
				return nil, fmt.Errorf("%s and %s must differ", s.name, other.name)
			}
		}
	}
	for _, s := range append(separators, struct{ name, value string }{"key.separator", r.keySeparator}) {
		if s.value == "" {
			return nil, fmt.Errorf("%s must not be empty", s.name)
		}
		if r.null != nil && s.value == *r.null {
			return nil, fmt.Errorf("null.marker and %s must differ", s.name)
		}
	}
	return r, nil
}

// next returns the record of the next line, io.EOF after the last one.
func (r *lineReader) next() (*kgo.Record, error) {
	line, err := r.in.ReadBytes('\n')
	if len(line) == 0 || err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	r.line++
	line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	record := &kgo.Record{}
	if r.parseHeaders {
		headers, rest, err := r.cut(line, r.headersDelimiter, "headers delimiter")
		if err != nil {
			return nil, err
		}
		if line = rest; headers != nil && !r.isNull(headers) {
			if record.Headers, err = r.headers(headers); err != nil {
				return nil, err
			}
		}
	}
	if r.parseKey {
		key, rest, err := r.cut(line, r.keySeparator, "key separator")
		if err != nil {
			return nil, err
		}
		if line = rest; key != nil && !r.isNull(key) {
			record.Key = key
		}
	}
	if !r.isNull(line) {
		record.Value = line
	}
	return record, nil
}

// cut returns what lies before and after a separator. Before is nil if it is not there and that is no error.
func (r *lineReader) cut(line []byte, separator, name string) (before, after []byte, err error) {
	before, after, found := bytes.Cut(line, []byte(separator))
	switch {
	case found:
		return before, after, nil
	case r.ignoreError:
		return nil, line, nil
	}
	return nil, nil, fmt.Errorf("no %s (%q) found on line number %d: '%s'", name, separator, r.line, line)
}

func (r *lineReader) headers(list []byte) ([]kgo.RecordHeader, error) {
	var headers []kgo.RecordHeader
	for pair := range bytes.SplitSeq(list, []byte(r.headersSeparator)) {
		key, value, found := bytes.Cut(pair, []byte(r.headersKeySeparator))
		if !found && !r.ignoreError {
			return nil, fmt.Errorf("no header key separator (%q) found in pair '%s' on line number %d", r.headersKeySeparator, pair, r.line)
		}
		if r.isNull(key) {
			return nil, fmt.Errorf("header keys should not be equal to the null marker '%s' as they can't be null: line number %d", *r.null, r.line)
		}
		header := kgo.RecordHeader{Key: string(key)}
		if found && !r.isNull(value) {
			header.Value = value
		}
		headers = append(headers, header)
	}
	return headers, nil
}

func (r *lineReader) isNull(b []byte) bool { return r.null != nil && string(b) == *r.null }
