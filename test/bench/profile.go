package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// profileCPU starts to take CPU profiles of a cluster's brokers for a while and returns the function that waits for them and keeps them.
// Profiling costs a broker a few percent, so the run under it is the last round and says so in no table.
func profileCPU(ctx context.Context, c *cluster, d time.Duration, dir, name string) (keep func() error) {
	var done []chan error
	for _, b := range c.brokers {
		if b.profile == "" {
			continue
		}
		path := filepath.Join(dir, name)
		if len(c.brokers) > 1 {
			path += fmt.Sprintf("-%d", b.id)
		}
		one := make(chan error, 1)
		done = append(done, one)
		go func() { one <- fetchProfile(ctx, b.profile, d, path+".pprof") }()
	}
	return func() error {
		var errs []error
		for _, one := range done {
			errs = append(errs, <-one)
		}
		return errors.Join(errs...)
	}
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
