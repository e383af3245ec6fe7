package harness

import (
	"fmt"
	"net/http"
	"time"
)

// Eventually waits until try returns no error, and ends the test if that takes longer than patience.
func Eventually(t T, patience time.Duration, what string, try func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not so within %v: %s: %v", patience, what, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// Answers tells whether a node's HTTP listener answers OK at an address like http://127.0.0.1:9644/readyz.
func Answers(url string) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}
