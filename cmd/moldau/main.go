// Command moldau is the broker and all its tools.
package main

import (
	"os"

	"moldau/internal/cli"
)

func main() {
	os.Exit(cli.Main())
}
