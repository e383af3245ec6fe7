package vfs

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// outcomes runs check on many power cuts of m and fails for any of the wanted outcomes that none has.
func outcomes(t *testing.T, m *Mem, look func(m *Mem) string, want ...string) {
	t.Helper()
	seen := map[string]int{}
	for seed := range uint64(400) {
		seen[look(m.CrashClone(seeded(seed), 0.5))]++
	}
	for _, w := range want {
		if seen[w] == 0 {
			t.Errorf("never saw %q", w)
		}
		delete(seen, w)
	}
	for other, n := range seen {
		t.Errorf("saw %q %d times", other, n)
	}
	equal(t, "nothing survives", look(m.CrashClone(seeded(1), 0)), want[0])
	equal(t, "all survives", look(m.CrashClone(seeded(1), 1)), want[len(want)-1])
}

// show lists the root with the content of its files.
func show(t *testing.T) func(m *Mem) string {
	return func(m *Mem) string {
		var s []string
		for _, name := range names(t, m, "/") {
			if e, err := m.Stat(name); err == nil && !e.Dir {
				name += "=" + strings.ReplaceAll(get(t, m, name), "\x00", "0")
			}
			s = append(s, name)
		}
		return strings.Join(s, " ")
	}
}

// durable writes a file that no crash can take.
func durable(t *testing.T, m *Mem, path, content string) {
	t.Helper()
	must(t, WriteFileAtomic(m, path, []byte(content)))
}

func TestCrashCreate(t *testing.T) {
	m := NewMem()
	f := open(t, m, "f", Create)
	_, err := f.WriteAt([]byte("x"), 0)
	must(t, err)
	must(t, f.Sync())
	outcomes(t, m, show(t), "", "f=x") // the data is safe, the name is not
	must(t, m.SyncDir("/"))
	outcomes(t, m, show(t), "f=x")
}

func TestCrashUnsyncedData(t *testing.T) {
	m := NewMem()
	put(t, m, "f", "x")
	must(t, m.SyncDir("/"))
	outcomes(t, m, show(t), "f=", "f=0", "f=x")
	must(t, m.SyncFS("/"))
	outcomes(t, m, show(t), "f=x")
}

func TestCrashRename(t *testing.T) {
	m := NewMem()
	durable(t, m, "f", "old")
	put(t, m, "tmp", "new")
	must(t, open(t, m, "tmp", 0).Sync())
	must(t, m.Rename("tmp", "f"))
	outcomes(t, m, show(t), "f=old", "f=old tmp=new", "f=new")
	must(t, m.SyncDir("/"))
	outcomes(t, m, show(t), "f=new")
}

func TestCrashRenameBetweenFolders(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("a"))
	must(t, m.MkdirAll("b"))
	must(t, m.SyncFS("/"))
	durable(t, m, "a/f", "x")
	must(t, m.Rename("a/f", "b/f"))
	look := func(m *Mem) string { return fmt.Sprint(names(t, m, "a"), names(t, m, "b")) }
	for _, dir := range []string{"", "a"} {
		if dir != "" {
			must(t, m.SyncDir(dir))
		}
		outcomes(t, m, look, "[f] []", "[] [f]") // all of it or nothing, until both folders are synced
	}
	must(t, m.SyncDir("b"))
	outcomes(t, m, look, "[] [f]")
}

func TestCrashRemove(t *testing.T) {
	m := NewMem()
	durable(t, m, "f", "x")
	must(t, m.Remove("f"))
	outcomes(t, m, show(t), "f=x", "")
	put(t, m, "f", "y")
	must(t, open(t, m, "f", 0).Sync())
	outcomes(t, m, show(t), "f=x", "", "f=y")
	must(t, m.SyncDir("/"))
	outcomes(t, m, show(t), "f=y")
}

// A folder cannot be gone while a change in it that came before is undone.
func TestCrashRemoveFolder(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("d"))
	must(t, m.SyncDir("/"))
	durable(t, m, "d/f", "x")
	must(t, m.Rename("d/f", "g"))
	must(t, m.Remove("d"))
	outcomes(t, m, show(t), "d", "d g=x", "g=x")
	must(t, m.SyncDir("/")) // the removal of d takes the move out of d with it
	outcomes(t, m, show(t), "g=x")
}

// A synced folder in an unsynced one is lost with it.
func TestCrashFolderName(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("d"))
	durable(t, m, "d/f", "x")
	look := func(m *Mem) string {
		there, err := Exists(m, "d/f")
		must(t, err)
		return fmt.Sprint(there)
	}
	outcomes(t, m, look, "false", "true")
	must(t, m.SyncDir("/"))
	outcomes(t, m, look, "true")
}

func TestCrashTruncate(t *testing.T) {
	m := NewMem()
	durable(t, m, "f", "abcd")
	f := open(t, m, "f", Write)
	must(t, f.Truncate(1))
	outcomes(t, m, show(t), "f=abcd", "f=a000", "f=a") // a000: the cut page was written, the size was not
	must(t, f.SyncData())
	outcomes(t, m, show(t), "f=a")
	_, err := f.WriteAt([]byte("B"), 1)
	must(t, err)
	outcomes(t, m, show(t), "f=a", "f=a0", "f=aB")
}

// A truncation that is lost leaves the old blocks in place: what was written behind the cut went to other ones.
func TestCrashRewrite(t *testing.T) {
	m := NewMem()
	durable(t, m, "f", strings.Repeat("o", 3*pageBytes))
	f := open(t, m, "f", Truncate)
	_, err := f.WriteAt([]byte(strings.Repeat("n", 3*pageBytes)), 0)
	must(t, err)
	olds, news := 0, 0
	for seed := range uint64(200) {
		got := get(t, m.CrashClone(seeded(seed), 0.5), "f")
		old, fresh := strings.Contains(got, "o"), strings.Contains(got, "n")
		if old && fresh {
			t.Fatalf("seed %d: old and new data in one file", seed)
		}
		if old {
			olds++
		}
		if fresh {
			news++
		}
	}
	if olds == 0 || news == 0 {
		t.Errorf("old content %d times, new %d times", olds, news)
	}
}

// What was behind the end never comes back when a file grows again, whatever happened in between.
func TestCrashBehindTheEnd(t *testing.T) {
	m := NewMem()
	durable(t, m, "f", strings.Repeat("o", 3*pageBytes))
	f := open(t, m, "f", Write)
	must(t, f.Truncate(1))
	must(t, f.SyncData())
	must(t, f.Truncate(3*pageBytes))
	grown := "o" + string(make([]byte, 3*pageBytes-1))
	equal(t, "grown", get(t, m.CrashClone(seeded(1), 1), "f"), grown)
	must(t, f.SyncData())
	equal(t, "grown and synced", get(t, m.CrashClone(seeded(1), 0), "f"), grown)

	m = NewMem()
	must(t, WriteFileAtomic(m, "f", nil))
	_, err := open(t, m, "f", Write).WriteAt([]byte("x"), 0)
	must(t, err)
	outcomes(t, m, func(m *Mem) string {
		e, err := m.Stat("f")
		must(t, err)
		must(t, open(t, m, "f", Write).Truncate(1))
		return fmt.Sprint(e.Size) + show(t)(m)
	}, "0f=0", "1f=0", "1f=x") // the sector may be on the disk and the size not
}

func TestCrashSectors(t *testing.T) {
	m := NewMem()
	durable(t, m, "f", strings.Repeat("o", 3*sectorBytes))
	_, err := open(t, m, "f", Write).WriteAt([]byte(strings.Repeat("n", 2*sectorBytes)), 0)
	must(t, err)
	whole := map[string]bool{}
	torn := 0
	for seed := range uint64(400) {
		got := get(t, m.CrashClone(seeded(seed), 0.5), "f")
		sizes := ""
		for s := range 3 {
			sector := got[s*sectorBytes : (s+1)*sectorBytes]
			switch strings.TrimLeft(sector, "n") + strings.TrimRight(sector, "o") {
			case strings.Repeat("o", sectorBytes):
				sizes += "o"
			case strings.Repeat("n", sectorBytes):
				sizes += "n"
			default:
				if s == 2 || strings.Trim(strings.TrimLeft(sector, "n"), "o") != "" {
					t.Fatalf("sector %d: %q", s, sector)
				}
				sizes += "t"
			}
		}
		whole[sizes] = true
		if strings.Contains(sizes, "t") {
			torn++
		}
	}
	for _, want := range []string{"ooo", "noo", "ono", "nno"} {
		if !whole[want] {
			t.Errorf("never saw %s", want)
		}
	}
	if torn == 0 {
		t.Error("never saw a torn sector")
	}
}

func TestKillKeepsThePageCache(t *testing.T) {
	m := NewMem()
	put(t, m, "f", "unsynced")
	lock, err := m.Lock("lock")
	must(t, err)
	killed := m.KillClone()
	_, err = open(t, m, "f", Write).WriteAt([]byte("LATE"), 0) // the dead process's last breath
	must(t, err)
	equal(t, "clone", get(t, killed, "f"), "unsynced")
	second, err := killed.Lock("lock")
	must(t, err)
	must(t, second.Close())
	must(t, lock.Close())
	outcomes(t, killed, func(m *Mem) string {
		there, err := Exists(m, "lock")
		must(t, err)
		return fmt.Sprint(there)
	}, "false", "true") // what was not durable is not by the kill
	must(t, killed.SyncFS("/"))
	outcomes(t, killed, show(t), "f=unsynced lock=")
}

func TestMemIsSparse(t *testing.T) {
	m := NewMem()
	f := open(t, m, "index", Create)
	must(t, f.Truncate(10<<20))
	must(t, f.Sync())
	_, err := f.WriteAt(make([]byte, 8), 5<<20)
	must(t, err)
	if pages := len(f.(*memFile).n.cache.pages); pages != 1 {
		t.Errorf("%d pages for 8 bytes", pages)
	}
	for i := range int64(100) {
		_, err := f.WriteAt(make([]byte, pageBytes), i*pageBytes)
		must(t, err)
	}
	must(t, f.Sync())
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := f.WriteAt([]byte("x"), 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 8 { // one page, one map and what the calls themselves need; not a hundred pages
		t.Errorf("%.0f allocations for a write and a sync", allocs)
	}
}

func TestMemCapacity(t *testing.T) {
	m := NewMem()
	m.SetCapacity(4 * pageBytes)
	free := func(pages int64) {
		t.Helper()
		usage, err := m.Usage("/")
		must(t, err)
		equal(t, "usage", usage, Usage{Total: 4 * pageBytes, Free: pages * pageBytes})
	}
	f := open(t, m, "f", Create)
	must(t, f.Truncate(100*pageBytes)) // a hole
	free(4)
	must(t, f.Truncate(0))
	n, err := f.WriteAt(make([]byte, 5*pageBytes), 100)
	equal(t, "written until full", n, 4*pageBytes-100)
	wantErr(t, "full", err, syscall.ENOSPC)
	_, err = f.WriteAt(make([]byte, pageBytes), pageBytes)
	must(t, err) // what is there can be written over
	free(0)
	must(t, f.Truncate(pageBytes))
	free(3)
	reserve := open(t, m, "reserve", Create)
	wantErr(t, "reserve too much", reserve.Allocate(4*pageBytes), syscall.ENOSPC)
	free(3)
	must(t, reserve.Allocate(2*pageBytes))
	free(1)
	_, err = reserve.WriteAt(make([]byte, 2*pageBytes), 0)
	must(t, err)
	free(1)
	clone := m.KillClone()
	must(t, m.Remove("reserve"))
	free(1) // it is still open
	must(t, reserve.Close())
	free(3)
	m = clone
	free(1)
	m = m.CrashClone(seeded(1), 1)
	free(1)
	m = m.CrashClone(seeded(1), 0)
	free(1)
}

// TestMemReserve: what is set aside counts, is there for the file alone, and Truncate to the same size gives it back.
func TestMemReserve(t *testing.T) {
	m := NewMem()
	m.SetCapacity(4 * pageBytes)
	free := func(pages int64) {
		t.Helper()
		usage, err := m.Usage("/")
		must(t, err)
		equal(t, "free pages", usage.Free/pageBytes, pages)
	}
	f := open(t, m, "f", Create)
	_, err := f.WriteAt(make([]byte, 100), 0)
	must(t, err)
	must(t, f.Reserve(100, 3*pageBytes-100))
	free(1)
	wantErr(t, "more than there is", f.Reserve(100, 5*pageBytes), syscall.ENOSPC)
	free(1)
	other := open(t, m, "other", Create)
	_, err = other.WriteAt(make([]byte, pageBytes+1), 0)
	wantErr(t, "space of another file", err, syscall.ENOSPC)
	_, err = f.WriteAt(make([]byte, pageBytes), 100)
	must(t, err)
	free(0)
	must(t, f.Truncate(100+pageBytes))
	free(1)
}

func TestMemClock(t *testing.T) {
	m := NewMem()
	now := time.UnixMilli(1000)
	m.SetNow(func() time.Time { return now })
	put(t, m, "f", "")
	now = time.UnixMilli(2000)
	must(t, m.Rename("f", "g"))
	e, err := m.Stat("g")
	must(t, err)
	equal(t, "rename does not touch", e.ModTime, time.UnixMilli(1000))
	put(t, m, "g", "x")
	e, err = m.KillClone().Stat("g")
	must(t, err)
	equal(t, "a write does", e.ModTime, now)
}

// modelFile is what the model knows of a file: every content since the last sync, that one first.
type modelFile struct {
	id       int64 // its modification time in ms, by which it is found again
	versions [][]byte
	safe     bool // it had a durable name and was neither removed nor replaced since
}

func (f *modelFile) now() []byte { return f.versions[len(f.versions)-1] }

// modelSlot is every file, or nil, that a name stood for since it was last durable, that one first.
type modelSlot struct {
	values []*modelFile
	moved  bool // by a rename between folders that is not certain yet
}

func (s *modelSlot) now() *modelFile { return s.values[len(s.values)-1] }

// TestCrashModel drives a disk at random and checks each power cut against what the promises of FS allow.
func TestCrashModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMem()
		var clock int64
		m.SetNow(func() time.Time { return time.UnixMilli(clock) })
		for _, dir := range []string{"a", "b"} {
			if err := m.MkdirAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.SyncFS("/"); err != nil {
			t.Fatal(err)
		}
		slots := map[string]*modelSlot{}
		paths := []string{"a/x", "a/y", "b/x", "b/y"}
		for _, p := range paths {
			slots[p] = &modelSlot{values: []*modelFile{nil}}
		}
		var files []*modelFile
		tangled := false // by a rename between folders: the sync of one can make changes in the other durable
		settle := func(dir string) {
			for _, p := range paths {
				if s := slots[p]; dir == "" || path.Dir(p) == dir && !s.moved {
					s.values, s.moved = s.values[len(s.values)-1:], false
					if f := s.now(); f != nil {
						f.safe = true
					}
				}
			}
		}
		check := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		pathGen := rapid.SampledFrom(paths)
		offset := rapid.OneOf(rapid.Int64Range(0, 3*pageBytes), rapid.SampledFrom([]int64{0, 511, 512, pageBytes, 2 * pageBytes}))
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			p := pathGen.Draw(t, "path")
			f := slots[p].now()
			if f != nil {
				clock = f.id
			}
			action := rapid.SampledFrom([]string{"write", "write", "write", "truncate", "sync", "rename", "remove", "sync-dir", "sync-fs"}).Draw(t, "action")
			switch {
			case action == "sync-dir":
				check(m.SyncDir(path.Dir(p)))
				settle(path.Dir(p))
			case action == "sync-fs":
				check(m.SyncFS("/"))
				settle("")
				for _, f := range files {
					f.versions = [][]byte{f.now()}
				}
			case f == nil:
				clock = int64(len(files) + 1)
				f = &modelFile{id: clock, versions: [][]byte{nil}}
				files = append(files, f)
				slots[p].values = append(slots[p].values, f)
				h, err := m.Open(p, Create|Excl)
				check(err)
				check(h.Close())
			case action == "remove":
				check(m.Remove(p))
				slots[p].values = append(slots[p].values, nil)
				f.safe = false
			case action == "rename":
				to := pathGen.Draw(t, "to")
				check(m.Rename(p, to))
				if to == p {
					break
				}
				if old := slots[to].now(); old != nil {
					old.safe = false
				}
				slots[p].values = append(slots[p].values, nil)
				slots[to].values = append(slots[to].values, f)
				if path.Dir(p) != path.Dir(to) {
					slots[p].moved, slots[to].moved, tangled = true, true, true
				}
			default:
				h, err := m.Open(p, Write)
				check(err)
				content := slices.Clone(f.now())
				switch action {
				case "write":
					off := offset.Draw(t, "off")
					piece := []byte(strings.Repeat(string(rune('a'+len(f.versions)%26)), int(1+offset.Draw(t, "len"))))
					_, err = h.WriteAt(piece, off)
					content = append(content, make([]byte, max(0, int(off)+len(piece)-len(content)))...)
					copy(content[off:], piece)
					f.versions = append(f.versions, content)
				case "truncate":
					size := offset.Draw(t, "size")
					err = h.Truncate(size)
					content = append(content, make([]byte, max(0, int(size)-len(content)))...)[:size]
					f.versions = append(f.versions, content)
				case "sync":
					err = h.SyncData()
					f.versions = [][]byte{content}
				}
				check(err)
				check(h.Close())
			}
		}

		seed := rapid.Uint64().Draw(t, "seed")
		keep := rapid.SampledFrom([]float64{0, 0.1, 0.5, 0.9, 1}).Draw(t, "keep")
		before := dump(m)
		crashed := m.CrashClone(seeded(seed), keep)
		if dump(m) != before || dump(m.KillClone()) != before {
			t.Fatal("a clone changed the disk or differs from it")
		}
		if dump(m.CrashClone(seeded(seed), keep)) != dump(crashed) {
			t.Fatal("the same seed gives another clone")
		}
		if dump(crashed.CrashClone(seeded(seed), 0)) != dump(crashed) {
			t.Fatal("what came back from a power cut is not durable")
		}
		if keep == 1 && dump(crashed) != before {
			t.Fatalf("all kept, but %q became %q", before, dump(crashed))
		}
		found := map[*modelFile]int{}
		for _, p := range paths {
			var f *modelFile
			if e, err := crashed.Stat(p); err == nil {
				f = files[e.ModTime.UnixMilli()-1]
				found[f]++
				content, err := ReadFile(crashed, p)
				check(err)
				if fault := f.impossible(content, keep); fault != "" {
					t.Fatalf("%s: %s", p, fault)
				}
			}
			if !slices.Contains(slots[p].values, f) {
				t.Fatalf("%s is a file that it was not since it was durable", p)
			}
			if keep == 0 && !tangled && f != slots[p].values[0] {
				t.Fatalf("%s: an unsynced change has survived", p)
			}
		}
		for _, f := range files {
			if f.safe && found[f] != 1 || found[f] > 1 {
				t.Fatalf("file %d has %d names", f.id, found[f])
			}
		}
	})
}

// impossible says why a power cut cannot have left this content, or nothing.
func (f *modelFile) impossible(content []byte, keep float64) string {
	if keep == 0 && string(content) != string(f.versions[0]) {
		return "nothing kept, but not what was synced"
	}
	shortest, longest := len(f.versions[0]), 0
	for _, v := range f.versions {
		shortest, longest = min(shortest, len(v)), max(longest, len(v))
	}
	if len(content) < shortest || len(content) > longest {
		return fmt.Sprintf("size %d, but it was %d to %d", len(content), shortest, longest)
	}
	for i, b := range content {
		possible := false
		for _, v := range f.versions {
			possible = possible || i < len(v) && v[i] == b || i >= len(v) && b == 0
		}
		if !possible {
			return fmt.Sprintf("byte %d is %q", i, b)
		}
	}
	return ""
}

// dump is all that a program can see of a disk.
func dump(m *Mem) string {
	var s strings.Builder
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := m.List(dir)
		if err != nil {
			panic(err)
		}
		for _, e := range entries {
			fmt.Fprintf(&s, "%s/%s %d ", dir, e.Name, e.Size)
			if e.Dir {
				walk(dir + "/" + e.Name)
				continue
			}
			content, err := ReadFile(m, dir+"/"+e.Name)
			if err != nil {
				panic(err)
			}
			fmt.Fprintf(&s, "%d %x\n", e.ModTime.UnixMilli(), content)
		}
	}
	walk("")
	return s.String()
}
