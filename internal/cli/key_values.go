package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/magiconair/properties"
)

// keyValues reads properties from a file, if there is one, and from key=value words, which win.
func (a *app) keyValues(file string, words []string) (map[string]string, error) {
	all := make(map[string]string)
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, &failure{exitConfig, fmt.Errorf("cannot read the client's properties: %w", err)}
		}
		p, err := (&properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}).LoadBytes(text)
		if err != nil {
			return nil, &failure{exitConfig, fmt.Errorf("%s: %w", file, err)}
		}
		all = p.Map()
	}
	for _, word := range words {
		key, value, found := strings.Cut(word, "=")
		if !found {
			return nil, &failure{exitUsage, fmt.Errorf("%q: want key=value", word)}
		}
		all[key] = value
	}
	return all, nil
}
