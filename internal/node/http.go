package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// health is what probes are told.
type health struct {
	ready   func() error         // nil when clients can be served
	startup func() (percent int) // 100 when recovery is through
	live    func() error         // nil when the process can still do its work
	metrics http.Handler
	clients http.HandlerFunc // what is known of clients
}

// routes returns the pages of the HTTP listener.
func (h health) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h.metrics)
	mux.HandleFunc("GET /clients", h.clients)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, h.live()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, h.ready()) })
	mux.HandleFunc("GET /startupz", func(w http.ResponseWriter, _ *http.Request) {
		percent := h.startup()
		if percent < 100 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintf(w, "%d%%\n", percent)
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// clients answers with the clients that have been seen.
func (n *Node) clients(w http.ResponseWriter, r *http.Request) {
	if apis := n.apis.Load(); apis != nil {
		apis.ServeClients(w, r)
		return
	}
	http.Error(w, "the node is starting", http.StatusServiceUnavailable)
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// serveHTTP serves until the listener is closed.
func (n *Node) serveHTTP(ln net.Listener) {
	s := &http.Server{Handler: n.health.routes(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	n.running.Go(func() {
		if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) && n.ctx.Err() == nil {
			n.o.Logger.Error("the HTTP listener ended", "error", err)
		}
	})
	n.running.Go(func() {
		<-n.ctx.Done()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		_ = s.Close()
	})
}
