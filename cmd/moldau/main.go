// Command moldau is the broker and all its tools.
package main

import (
	"os"
	"runtime"

	"moldau/internal/cli"
)

// A goroutine that is locked before main begins stays on the process's first thread, as cli.Main wants it.
func init() { runtime.LockOSThread() }

func main() {
	os.Exit(cli.Main())
}
