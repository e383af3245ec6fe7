package batch

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
)

// Tag is a tagged field (KIP-482) that the record's schema does not name.
type Tag struct {
	ID    uint32
	Value []byte
}

// LeaderChange is the value of a ControlLeaderChange record (LeaderChangeMessage.json). Version 1 adds the voters'
// directories (KIP-853).
type LeaderChange struct {
	Version        int16
	LeaderID       kafka.NodeID
	Voters         []LeaderChangeVoter
	GrantingVoters []LeaderChangeVoter
	Tags           []Tag // by ascending ID
}

// LeaderChangeVoter is one voter of a LeaderChange.
type LeaderChangeVoter struct {
	ID   kafka.NodeID
	Dir  kafka.DirID // version 1
	Tags []Tag
}

// SnapshotHeader is the value of the first record of a metadata snapshot (SnapshotHeaderRecord.json).
type SnapshotHeader struct {
	Version                   int16
	LastContainedLogTimestamp int64 // ms
	Tags                      []Tag
}

// SnapshotFooter is the value of the last record of a metadata snapshot (SnapshotFooterRecord.json).
type SnapshotFooter struct {
	Version int16
	Tags    []Tag
}

// KRaftVersion is the value of a ControlKRaftVersion record (KRaftVersionRecord.json).
type KRaftVersion struct {
	Version      int16
	KRaftVersion int16 // the finalised level of kraft.version
	Tags         []Tag
}

// KRaftVoters is the value of a ControlKRaftVoters record (VotersRecord.json).
type KRaftVoters struct {
	Version int16
	Voters  []KRaftVoter
	Tags    []Tag
}

// KRaftVoter is one member of the voter set.
type KRaftVoter struct {
	ID         kafka.NodeID
	Dir        kafka.DirID
	Endpoints  []KRaftEndpoint
	MinVersion int16 // lowest level of kraft.version that the voter can follow
	MaxVersion int16
	// VersionTags belong to the struct around the two levels.
	VersionTags []Tag
	Tags        []Tag
}

// KRaftEndpoint is one controller listener of a voter.
type KRaftEndpoint struct {
	Name string
	Host string
	Port uint16
	Tags []Tag
}

// AppendTo appends the value in the encoding of m.Version.
func (m *LeaderChange) AppendTo(dst []byte) []byte {
	dst = appendInt16(dst, m.Version)
	dst = appendInt32(dst, m.LeaderID)
	for _, voters := range [][]LeaderChangeVoter{m.Voters, m.GrantingVoters} {
		dst = appendLen(dst, len(voters))
		for i := range voters {
			dst = appendInt32(dst, voters[i].ID)
			if m.Version >= 1 {
				dst = append(dst, voters[i].Dir[:]...)
			}
			dst = appendTags(dst, voters[i].Tags)
		}
	}
	return appendTags(dst, m.Tags)
}

// ReadFrom reads a value; its version is the one that it begins with.
func (m *LeaderChange) ReadFrom(b []byte) error {
	r := controlReader{src: b}
	got := LeaderChange{Version: r.version(), LeaderID: r.int32()}
	for _, voters := range []*[]LeaderChangeVoter{&got.Voters, &got.GrantingVoters} {
		for range r.count() {
			v := LeaderChangeVoter{ID: r.int32()}
			if got.Version >= 1 {
				v.Dir = r.uuid()
			}
			v.Tags = r.tags()
			if r.err != nil {
				break
			}
			*voters = append(*voters, v)
		}
	}
	got.Tags = r.tags()
	if err := r.end(ControlLeaderChange); err != nil {
		return err
	}
	*m = got
	return nil
}

// AppendTo appends the value.
func (m *SnapshotHeader) AppendTo(dst []byte) []byte {
	dst = appendInt16(dst, m.Version)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.LastContainedLogTimestamp))
	return appendTags(dst, m.Tags)
}

// ReadFrom reads a value.
func (m *SnapshotHeader) ReadFrom(b []byte) error {
	r := controlReader{src: b}
	got := SnapshotHeader{Version: r.version(), LastContainedLogTimestamp: r.int64(), Tags: r.tags()}
	if err := r.end(ControlSnapshotHeader); err != nil {
		return err
	}
	*m = got
	return nil
}

// AppendTo appends the value.
func (m *SnapshotFooter) AppendTo(dst []byte) []byte {
	return appendTags(appendInt16(dst, m.Version), m.Tags)
}

// ReadFrom reads a value.
func (m *SnapshotFooter) ReadFrom(b []byte) error {
	r := controlReader{src: b}
	got := SnapshotFooter{Version: r.version(), Tags: r.tags()}
	if err := r.end(ControlSnapshotFooter); err != nil {
		return err
	}
	*m = got
	return nil
}

// AppendTo appends the value.
func (m *KRaftVersion) AppendTo(dst []byte) []byte {
	dst = appendInt16(dst, m.Version)
	dst = appendInt16(dst, m.KRaftVersion)
	return appendTags(dst, m.Tags)
}

// ReadFrom reads a value.
func (m *KRaftVersion) ReadFrom(b []byte) error {
	r := controlReader{src: b}
	got := KRaftVersion{Version: r.version(), KRaftVersion: r.int16(), Tags: r.tags()}
	if err := r.end(ControlKRaftVersion); err != nil {
		return err
	}
	*m = got
	return nil
}

// AppendTo appends the value.
func (m *KRaftVoters) AppendTo(dst []byte) []byte {
	dst = appendInt16(dst, m.Version)
	dst = appendLen(dst, len(m.Voters))
	for i := range m.Voters {
		v := &m.Voters[i]
		dst = appendInt32(dst, v.ID)
		dst = append(dst, v.Dir[:]...)
		dst = appendLen(dst, len(v.Endpoints))
		for _, e := range v.Endpoints {
			dst = appendString(dst, e.Name)
			dst = appendString(dst, e.Host)
			dst = binary.BigEndian.AppendUint16(dst, e.Port)
			dst = appendTags(dst, e.Tags)
		}
		dst = appendInt16(dst, v.MinVersion)
		dst = appendInt16(dst, v.MaxVersion)
		dst = appendTags(dst, v.VersionTags)
		dst = appendTags(dst, v.Tags)
	}
	return appendTags(dst, m.Tags)
}

// ReadFrom reads a value.
func (m *KRaftVoters) ReadFrom(b []byte) error {
	r := controlReader{src: b}
	got := KRaftVoters{Version: r.version()}
	for range r.count() {
		v := KRaftVoter{ID: r.int32(), Dir: r.uuid()}
		for range r.count() {
			e := KRaftEndpoint{Name: r.string(), Host: r.string(), Port: uint16(r.int16()), Tags: r.tags()}
			if r.err != nil {
				break
			}
			v.Endpoints = append(v.Endpoints, e)
		}
		v.MinVersion, v.MaxVersion, v.VersionTags, v.Tags = r.int16(), r.int16(), r.tags(), r.tags()
		if r.err != nil {
			break
		}
		got.Voters = append(got.Voters, v)
	}
	got.Tags = r.tags()
	if err := r.end(ControlKRaftVoters); err != nil {
		return err
	}
	*m = got
	return nil
}

func appendInt16(dst []byte, v int16) []byte { return binary.BigEndian.AppendUint16(dst, uint16(v)) }
func appendInt32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }

// appendLen appends the length of a string or array in the compact form of KIP-482, where 0 is null.
func appendLen(dst []byte, n int) []byte { return binary.AppendUvarint(dst, uint64(n)+1) }

func appendString(dst []byte, s string) []byte { return append(appendLen(dst, len(s)), s...) }

func appendTags(dst []byte, tags []Tag) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(tags)))
	for _, t := range tags {
		dst = binary.AppendUvarint(dst, uint64(t.ID))
		dst = binary.AppendUvarint(dst, uint64(len(t.Value)))
		dst = append(dst, t.Value...)
	}
	return dst
}

// controlReader reads fields one after the other. After the first error all further fields are zero, so a caller looks
// at err once, at the end.
type controlReader struct {
	src []byte
	err error
}

func (r *controlReader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %w", what, kerr.InvalidRecord)
	}
	r.src = nil
}

func (r *controlReader) end(t ControlType) error {
	if r.err != nil {
		return fmt.Errorf("%v record: %w", t, r.err)
	}
	return nil
}

func (r *controlReader) span(n uint64) []byte {
	if uint64(len(r.src)) < n {
		r.fail("value ends early")
		return nil
	}
	s := r.src[:n:n]
	r.src = r.src[n:]
	return s
}

func (r *controlReader) int16() int16 {
	if s := r.span(2); s != nil {
		return int16(binary.BigEndian.Uint16(s))
	}
	return 0
}

func (r *controlReader) int32() int32 {
	if s := r.span(4); s != nil {
		return int32(binary.BigEndian.Uint32(s))
	}
	return 0
}

func (r *controlReader) int64() int64 {
	if s := r.span(8); s != nil {
		return int64(binary.BigEndian.Uint64(s))
	}
	return 0
}

func (r *controlReader) uuid() (u kafka.UUID) {
	copy(u[:], r.span(uint64(len(u))))
	return u
}

func (r *controlReader) version() int16 {
	v := r.int16()
	if v < 0 {
		r.fail("negative version")
	}
	return v
}

func (r *controlReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.src)
	if n <= 0 || v > 1<<32-1 {
		r.fail("bad length")
		return 0
	}
	r.src = r.src[n:]
	return v
}

// count reads the length of an array. No element is shorter than a byte, so a length beyond the bytes left is a lie; the
// caller appends element by element all the same, so that memory follows bytes.
func (r *controlReader) count() int {
	n := r.uvarint()
	if r.err == nil && (n == 0 || n-1 > uint64(len(r.src))) {
		r.fail("bad array length")
	}
	if r.err != nil {
		return 0
	}
	return int(n - 1)
}

func (r *controlReader) string() string {
	n := r.uvarint()
	if r.err == nil && n == 0 {
		r.fail("null string")
	}
	if r.err != nil {
		return ""
	}
	return string(r.span(n - 1))
}

func (r *controlReader) tags() []Tag {
	var tags []Tag
	for range r.uvarint() {
		t := Tag{ID: uint32(r.uvarint())}
		t.Value = append([]byte{}, r.span(r.uvarint())...)
		if r.err != nil {
			return nil
		}
		tags = append(tags, t)
	}
	return tags
}
