package harness

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// server is the process of a broker or of a ZooKeeper, prepared and not yet started.
type server struct {
	name  string // in messages
	kafka *Kafka
	jvm   []string
	class string
	file  string // its properties

	cmd  *exec.Cmd
	log  *syncBuffer
	done chan struct{}
	err  error // of the process, valid after done
}

func (k *Kafka) server(name string, jvm []string, class, file string) server {
	return server{name: name, kafka: k, jvm: jvm, class: class, file: file}
}

// Spawn starts the process and does not wait until it serves; args come after the name of its properties, for a broker
// "--override", "key=value" pairs.
func (s *server) Spawn(t T, args ...string) {
	t.Helper()
	cmd := s.kafka.CommandJVM(context.Background(), s.jvm, s.class, append([]string{s.file}, args...)...)
	log := &syncBuffer{}
	s.log, cmd.Stdout, cmd.Stderr = log, log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.cmd, s.done = cmd, make(chan struct{})
	done := s.done
	go func() {
		s.err = cmd.Wait()
		close(done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		if t.Failed() {
			t.Logf("log of %s:\n%s", s.name, tail(log.String(), 8000))
		}
	})
}

// Stop sends SIGTERM and waits for a clean end.
func (s *server) Stop(t T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v", err)
	}
	select {
	case <-s.done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s did not stop within two minutes of SIGTERM\n%s", s.name, tail(s.log.String(), 8000))
	}
}

// Kill ends the process as kill -9 does, if it has not ended by itself.
func (s *server) Kill(t T) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	<-s.done
}

// Pid is the process id of the running server.
func (s *server) Pid() int { return s.cmd.Process.Pid }

// Done is closed when the process has ended; Err tells how.
func (s *server) Done() <-chan struct{} { return s.done }

// Err is how the process ended, nil for status 0; valid after Done.
func (s *server) Err() error { return s.err }

// Log is what the server has printed since its last start.
func (s *server) Log() string { return s.log.String() }
