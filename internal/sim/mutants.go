//go:build sim

package sim

import (
	"math/rand/v2"
	"strings"

	"moldau/internal/vfs"
)

// Mutant is a planted bug: proof that the net has no hole there. All are planted at the seams; the product has no trace of
// them.
type Mutant struct {
	Name  string
	wrap  func(vfs.FS) vfs.FS // between the node and its disk
	alter func(*Plan)         // what the node is told and the checkers are not
	// needs tells whether a plan can show it at all.
	needs func(Plan) bool
}

// Mutants are the planted bugs that must be caught.
func Mutants() []Mutant {
	powerLoss := func(p Plan) bool { return p.has(PowerLoss) && !p.Lazy }
	return []Mutant{
		{Name: "records are not synced", needs: powerLoss, wrap: lying(skip{path: ".log", not: "__cluster_metadata", data: true})},
		{Name: "the metadata log is not synced", needs: powerLoss, wrap: lying(skip{path: "__cluster_metadata-0/", data: true})},
		{Name: "names are not synced", needs: powerLoss, wrap: lying(skip{names: true})},
		{Name: "a replaced file is not synced before its rename", needs: powerLoss, wrap: lying(skip{path: ".tmp", data: true})},
		{Name: "the journal is not synced", wrap: lying(skip{path: "moldau.journal", data: true}),
			needs: func(p Plan) bool { return powerLoss(p) && p.DeleteRecords }},
		{Name: "a failed sync is tried again", wrap: retrying,
			needs: func(p Plan) bool { return p.has(DiskError) && p.has(PowerLoss) && !p.Lazy }},
		{Name: "answers do not wait for the disk", needs: powerLoss, alter: func(p *Plan) { p.Lazy = true }},
		{Name: "a failed write passes for a good one", wrap: silent,
			needs: func(p Plan) bool { return p.has(DiskError) }},
	}
}

// planOf is the plan that Run draws for a seed.
func planOf(seed uint64) Plan { return Draw(rand.New(rand.NewPCG(seed, 2))) }

// skip says which syncs of a lying disk do nothing.
type skip struct {
	path, not   string
	data, names bool
}

func (s skip) hits(path string) bool {
	return strings.Contains(path, s.path) && (s.not == "" || !strings.Contains(path, s.not))
}

// lying returns a disk that reports syncs it does not make.
func lying(s skip) func(vfs.FS) vfs.FS {
	return func(fs vfs.FS) vfs.FS { return &lyingFS{FS: fs, skip: s} }
}

type lyingFS struct {
	vfs.FS
	skip skip
}

func (l *lyingFS) Open(path string, flag vfs.Flag) (vfs.File, error) {
	f, err := l.FS.Open(path, flag)
	if err != nil || !l.skip.data || !l.skip.hits(path) {
		return f, err
	}
	return &lyingFile{f}, nil
}

func (l *lyingFS) SyncDir(path string) error {
	if l.skip.names && l.skip.hits(path) {
		return nil
	}
	return l.FS.SyncDir(path)
}

type lyingFile struct{ vfs.File }

func (*lyingFile) SyncData() error { return nil }
func (*lyingFile) Sync() error     { return nil }

// retrying is a disk whose failed syncs are repeated until they succeed, which on Linux says nothing.
func retrying(fs vfs.FS) vfs.FS { return &stubbornFS{FS: fs} }

type stubbornFS struct {
	vfs.FS
	silent bool
}

func (s *stubbornFS) Open(path string, flag vfs.Flag) (vfs.File, error) {
	f, err := s.FS.Open(path, flag)
	if err != nil {
		return nil, err
	}
	if s.silent {
		return &silentFile{f}, nil
	}
	return &stubbornFile{f}, nil
}

type stubbornFile struct{ vfs.File }

func (f *stubbornFile) SyncData() error {
	if f.File.SyncData() == nil {
		return nil
	}
	return f.File.SyncData()
}

// silent is a disk whose failed writes look like good ones.
func silent(fs vfs.FS) vfs.FS { return &stubbornFS{FS: fs, silent: true} }

type silentFile struct{ vfs.File }

func (f *silentFile) WriteAt(b []byte, off int64) (int, error) {
	_, _ = f.File.WriteAt(b, off)
	return len(b), nil
}
