package cli

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"moldau/internal/config"
)

// nodeLog is the log that a node is given, and the level that it can be told to change.
type nodeLog struct {
	*slog.Logger
	level *slog.LevelVar
}

func newLog(w io.Writer, c config.Logging) nodeLog {
	level := new(slog.LevelVar)
	level.Set(map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}[c.Level])
	if c.Format == "json" {
		return nodeLog{slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})), level}
	}
	return nodeLog{slog.New(&lineHandler{w: w, mu: new(sync.Mutex), level: level}), level}
}

// lineHandler writes log lines for people: time, level, component, message, then key=value. The component is the
// attribute of that name.
type lineHandler struct {
	w     io.Writer
	mu    *sync.Mutex // guards w; shared by all that descend from one handler
	level slog.Leveler

	component string
	attrs     string // already written out, each with a space before it
	prefix    string // of the open groups, each with a dot behind it
}

func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.level.Level()
}

func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	line := *h
	r.Attrs(func(a slog.Attr) bool {
		line.add(a, h.prefix)
		return true
	})
	var b strings.Builder
	if !r.Time.IsZero() {
		b.WriteString(r.Time.Format("2006-01-02 15:04:05.000 "))
	}
	level := r.Level.String()
	b.WriteString(level + strings.Repeat(" ", max(1, 6-len(level))))
	if line.component != "" {
		b.WriteString(line.component + ": ")
	}
	b.WriteString(oneLine(r.Message) + line.attrs + "\n")
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.w, b.String())
	return err
}

func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	for _, a := range attrs {
		next.add(a, h.prefix)
	}
	return &next
}

func (h *lineHandler) WithGroup(name string) slog.Handler {
	next := *h
	if name != "" {
		next.prefix += name + "."
	}
	return &next
}

func (h *lineHandler) add(a slog.Attr, prefix string) {
	value := a.Value.Resolve()
	switch {
	case a.Equal(slog.Attr{}):
	case value.Kind() == slog.KindGroup:
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, inner := range value.Group() {
			h.add(inner, prefix)
		}
	case a.Key == "component" && prefix == "":
		h.component = value.String()
	default:
		text := value.String()
		if value.Kind() == slog.KindTime {
			text = value.Time().Format(time.RFC3339Nano)
		}
		h.attrs += " " + prefix + a.Key + "=" + quoted(text)
	}
}

// quoted keeps a value readable as one word.
func quoted(s string) string {
	if s == "" || strings.ContainsAny(s, " \"=") || oneLine(s) != s {
		return strconv.Quote(s)
	}
	return s
}

// oneLine keeps a message from looking like several lines, or from steering a terminal: parts of it may come from
// outside.
func oneLine(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0 {
		return s
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}
