package metrics

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestSetsAreSeparateAndServed(t *testing.T) {
	a, b := NewSet(), NewSet()
	a.Counter("moldau_a_total", "A.").Add(2)
	b.Counter("moldau_a_total", "A.").Inc()
	a.Gauge("moldau_b", "B.").Set(3)
	a.CounterVec("moldau_c_total", "C.", "kind").WithLabelValues("x").Inc()
	a.GaugeVec("moldau_d", "D.", "kind").WithLabelValues("y").Set(4)
	a.GaugeFunc("moldau_e", "E.", func() float64 { return 5 })
	a.Seconds("moldau_g_seconds", "G.").Observe(0.5)
	a.SecondsVec("moldau_h_seconds", "H.", "kind").WithLabelValues("z").Observe(100)
	a.AddRuntime()
	text := scrape(t, a)
	for _, want := range []string{
		"moldau_a_total 2", "moldau_b 3", `moldau_c_total{kind="x"} 1`, `moldau_d{kind="y"} 4`, "moldau_e 5",
		"moldau_g_seconds_count 1", `moldau_h_seconds_bucket{kind="z",le="+Inf"} 1`, "go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no line begins with %q", want)
		}
	}
	if text := scrape(t, b); !strings.Contains(text, "\nmoldau_a_total 1") || strings.Contains(text, "moldau_b") {
		t.Errorf("another set shares metrics:\n%s", text)
	}
}

func TestSecondDeclarationPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the same name was declared twice")
		}
	}()
	s := NewSet()
	s.Counter("moldau_a_total", "A.")
	s.Gauge("moldau_a_total", "A.")
}

func scrape(t *testing.T, s *Set) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != 200 {
		t.Fatal(w.Code, err)
	}
	return string(text)
}
