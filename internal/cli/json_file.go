package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// readNamed reads the file that a flag names. A failure says which flag, and the file once.
func readNamed(flag, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, ofFile(flag, path, err)
	}
	return text, nil
}

// ofFile is what is wrong with the file that a flag names.
func ofFile(flag, path string, err error) error {
	var known *fs.PathError
	if errors.As(err, &known) {
		err = known.Err // it would name the file again
	}
	return fmt.Errorf("--%s %s: %w", flag, path, err)
}

// parseJSON reads one of the documents that Kafka's tools take. What is wrong with it is told in JSON's terms and not in Go's,
// with a document as it should be.
func parseJSON(text []byte, doc any, want string) error {
	err := json.Unmarshal(text, doc)
	var syntax *json.SyntaxError
	var other *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		return fmt.Errorf("it is no JSON from byte %d on: %w; want %s", syntax.Offset, err, want)
	case errors.As(err, &other):
		return fmt.Errorf("%s is a wrong %s; want %s", cmp.Or(other.Field, "the document"), other.Value, want)
	}
	return err
}
