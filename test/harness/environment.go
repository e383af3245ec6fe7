package harness

import (
	"os"
	"slices"
	"strings"
)

// Environment is this process's environment without what only tests read: a node would take those for settings that it does
// not know.
func Environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{"MOLDAU_EFFORT", "MOLDAU_REQUIRE_ALL", "MOLDAU_SOAK"}, name)
	})
}
