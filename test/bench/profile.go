package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// profileCPU starts to take a CPU profile of a broker for a while and returns the function that waits for it and keeps it. Profiling
// costs the broker a few percent, so the run under it is the last round and says so in no table.
func profileCPU(ctx context.Context, b *broker, d time.Duration, dir, name string) (keep func() error) {
	done := make(chan error, 1)
	go func() { done <- fetchProfile(ctx, b.profile, d, filepath.Join(dir, name+".pprof")) }()
	return func() error { return <-done }
}

func fetchProfile(ctx context.Context, url string, d time.Duration, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s?seconds=%d", url, int(math.Ceil(d.Seconds()))), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("CPU profile: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("CPU profile: %s", resp.Status)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, resp.Body); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
