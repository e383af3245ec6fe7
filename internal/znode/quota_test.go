package znode

import (
	"log/slog"
	"strings"
	"testing"
)

// A quota that is exceeded is told of in the log, each time that more comes and never when something goes.
func TestQuotaExceeded(t *testing.T) {
	var log strings.Builder
	s := newShard(&Coordinator{o: Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	s.findQuotas()
	made := func(path, data string) { s.apply(entry{kind: entryCreate, path: path, data: []byte(data)}, true) }
	told := func(want int) {
		t.Helper()
		if got := strings.Count(log.String(), "quota"); got != want {
			t.Errorf("%d lines in the log, want %d:\n%s", got, want, &log)
		}
	}
	made("/q", "")
	made("/zookeeper/quota/q/zookeeper_limits", "count=2,bytes=-1")
	made("/q/a", "large enough")
	told(0)
	made("/q/b", "")
	told(1)
	made("/q/b/c", "")
	told(2)
	s.apply(entry{kind: entryDelete, path: "/q/b/c"}, true)
	s.apply(entry{kind: entryData, path: "/q/b", data: []byte("x")}, true)
	told(2)
	s.apply(entry{kind: entryData, path: "/zookeeper/quota/q/zookeeper_limits", data: []byte("count=-1,bytes=13")}, true)
	s.apply(entry{kind: entryData, path: "/q/b", data: []byte("xy")}, true)
	told(3)
	if !strings.Contains(log.String(), `path=/q holds="count=3,bytes=14" limit="count=-1,bytes=13"`) {
		t.Error(log.String())
	}
}
