package vfs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain is the other process of TestLockExcludesRecordLocks when told so.
func TestMain(m *testing.M) {
	if path := os.Getenv("VFS_TEST_HOLD_RECORD_LOCK"); path != "" {
		holdRecordLock(path)
		return
	}
	os.Exit(m.Run())
}

// holdRecordLock takes the kind of lock that java.nio.channels.FileChannel.lock takes, and keeps it until stdin ends.
func holdRecordLock(path string) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err == nil {
		err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart})
	}
	if err == nil {
		fmt.Println("locked")
	} else {
		fmt.Println(err)
	}
	io.Copy(io.Discard, os.Stdin)
}

func TestLockExcludesRecordLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	other := func() (said string, stop func()) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "VFS_TEST_HOLD_RECORD_LOCK="+path)
		stdin, err := cmd.StdinPipe()
		must(t, err)
		stdout, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		said, err = bufio.NewReader(stdout).ReadString('\n')
		must(t, err)
		return strings.TrimSpace(said), func() {
			must(t, stdin.Close())
			must(t, cmd.Wait())
		}
	}

	said, stop := other()
	if said != "locked" {
		t.Fatalf("the other process said %q", said)
	}
	if lock, err := NewOS().Lock(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("locked what another process has: %v, %v", lock, err)
	}
	stop()
	lock, err := NewOS().Lock(path)
	must(t, err)
	said, stop = other()
	if said == "locked" {
		t.Fatal("another process locked what we have")
	}
	stop()
	must(t, lock.Close())
}

// TestReserveTakesSpaceUntilTruncate: blocks behind the end of a file are taken and given back, its size stays.
func TestReserveTakesSpaceUntilTruncate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f, err := NewOS().Open(path, Create)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt(make([]byte, 5000), 0)
	must(t, err)
	must(t, f.Sync())
	stat := func() (size, blocks int64) {
		var st unix.Stat_t
		must(t, unix.Stat(path, &st))
		return st.Size, st.Blocks * 512
	}
	_, before := stat()
	err = f.Reserve(5000, 1<<20)
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("this filesystem sets no space aside")
	}
	must(t, err)
	if size, blocks := stat(); size != 5000 || blocks < before+1<<20-8192 {
		t.Fatalf("size %d, %d bytes of disk, %d before", size, blocks, before)
	}
	must(t, f.Truncate(5000))
	if size, blocks := stat(); size != 5000 || blocks > before {
		t.Fatalf("after truncate to the same size: size %d, %d bytes of disk, %d before", size, blocks, before)
	}
}

// tcpPair returns both ends of a connection on loopback.
func tcpPair(t testing.TB) (client, server *net.TCPConn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
	s, err := ln.Accept()
	must(t, err)
	t.Cleanup(func() { c.Close(); s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

// Many sends of one file at once must not disturb each other: the trap of the shared file position.
func TestSendToTCPSideBySide(t *testing.T) {
	content := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{1}).Read(content)
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, content, 0o644))
	f, err := NewOS().Open(path, 0)
	must(t, err)
	defer f.Close()
	var wg sync.WaitGroup
	for i := range int64(4) {
		client, server := tcpPair(t)
		pos, n := i*100_001, int64(2<<20)
		wg.Go(func() {
			sent, err := f.SendTo(server, pos, n)
			if sent != n || err != nil {
				t.Errorf("sent %d, %v", sent, err)
			}
			server.Close()
		})
		wg.Go(func() {
			got, err := io.ReadAll(client)
			if err != nil || !bytes.Equal(got, content[pos:pos+n]) {
				t.Errorf("send %d: %d bytes, other than in the file; %v", i, len(got), err)
			}
		})
	}
	wg.Wait()
}

// TestSendToReadsNothingElse: what is sent from the disk does not bring along what comes after it, which syncs would wait for.
func TestSendToReadsNothingElse(t *testing.T) {
	const sent = aheadBytes + aheadBytes/2
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, bytes.Repeat([]byte("0123456789abcdef"), 1<<20), 0o644))
	raw, err := os.Open(path)
	must(t, err)
	defer raw.Close()
	must(t, raw.Sync())
	must(t, unix.Fadvise(int(raw.Fd()), 0, 0, unix.FADV_DONTNEED))
	inMemory := func(pos int64) bool {
		n, err := unix.Preadv2(int(raw.Fd()), [][]byte{make([]byte, 1)}, pos, unix.RWF_NOWAIT)
		return n == 1 && err == nil
	}
	if inMemory(sent / 2) {
		t.Skip("this filesystem keeps all of a file in memory")
	}
	f, err := NewOS().Open(path, 0)
	must(t, err)
	defer f.Close()
	client, server := tcpPair(t)
	var received sync.WaitGroup
	received.Go(func() { io.Copy(io.Discard, client) })
	n, err := f.SendTo(server, 0, sent)
	if n != sent || err != nil {
		t.Errorf("sent %d, %v", n, err)
	}
	server.Close()
	received.Wait()
	if !inMemory(sent/2) || inMemory(sent+64<<10) {
		t.Errorf("in memory: what was sent %t, what comes after %t", inMemory(sent/2), inMemory(sent+64<<10))
	}
}

func TestSendToTCPFailures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, make([]byte, 1000), 0o644))
	f, err := NewOS().Open(path, 0)
	must(t, err)
	_, server := tcpPair(t)
	if n, err := f.SendTo(server, 900, 200); n != 100 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("behind the end: %d, %v", n, err)
	}
	if n, err := f.SendTo(server, -1, 10); n != 0 || err == nil {
		t.Errorf("before the start: %d, %v", n, err)
	}
	must(t, f.Close())
	if _, err := f.SendTo(server, 0, 10); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed file: %v", err)
	}
	must(t, server.Close())
	f, err = NewOS().Open(path, 0)
	must(t, err)
	defer f.Close()
	if _, err := f.SendTo(server, 0, 10); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed connection: %v", err)
	}
}

// BenchmarkSendTo compares sendfile with reading and writing; cpu-ns/KiB is what the sending thread used.
func BenchmarkSendTo(b *testing.B) {
	path := filepath.Join(b.TempDir(), "f")
	must(b, os.WriteFile(path, make([]byte, 32<<20), 0o644))
	f, err := NewOS().Open(path, 0)
	must(b, err)
	defer f.Close()
	for _, n := range []int64{16 << 10, 64 << 10, 1 << 20} {
		for _, way := range []string{"sendfile", "copy"} {
			b.Run(fmt.Sprintf("%s/%dKiB", way, n>>10), func(b *testing.B) {
				client, server := tcpPair(b)
				var received sync.WaitGroup
				received.Go(func() {
					io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{client}, make([]byte, 256<<10))
				})
				var dst io.Writer = server
				if way == "copy" {
					dst = struct{ io.Writer }{server}
				}
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				var before, after unix.Rusage
				must(b, unix.Getrusage(unix.RUSAGE_THREAD, &before))
				b.SetBytes(n)
				for pos := int64(0); b.Loop(); pos = (pos + n) % (32 << 20) {
					if _, err := f.SendTo(dst, pos, n); err != nil {
						b.Fatal(err)
					}
				}
				must(b, unix.Getrusage(unix.RUSAGE_THREAD, &after))
				used := after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano()
				b.ReportMetric(float64(used)/float64(int64(b.N)*n>>10), "cpu-ns/KiB")
				server.Close()
				received.Wait()
			})
		}
	}
}
