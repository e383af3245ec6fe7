package foreign

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// junitReport is the file that JUnit's console launcher and pytest write.
type junitReport struct {
	Cases []junitCase `xml:"testcase"`
	Suite []struct {
		Cases []junitCase `xml:"testcase"`
	} `xml:"testsuite"`
}

type junitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	Failure *junitText `xml:"failure"`
	Error   *junitText `xml:"error"`
	Skipped *junitText `xml:"skipped"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

var parameters = regexp.MustCompile(`\([^)]*\)`)

// junitResults reads the reports in a folder. A test that the launcher did not run because it is its own twin is no result.
func junitResults(dir string) (map[name]result, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.xml"))
	if err != nil {
		return nil, err
	}
	results := make(map[name]result)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var report junitReport
		if err := xml.Unmarshal(text, &report); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		cases := report.Cases
		for _, s := range report.Suite {
			cases = append(cases, s.Cases...)
		}
		for _, c := range cases {
			r := c.result()
			if strings.HasPrefix(r.why, "twin") {
				continue
			}
			test := strings.ReplaceAll(parameters.ReplaceAllString(c.Name, ""), " ", "_")
			group, nested, ok := strings.Cut(c.Class, "$")
			if ok {
				test = nested + "." + test
			}
			results[name{group, test}] = r
		}
	}
	return results, nil
}

func (c junitCase) result() result {
	told := func(o outcome, text *junitText) result {
		why, _, _ := strings.Cut(strings.TrimSpace(text.Text), "\n")
		if text.Message != "" {
			why, _, _ = strings.Cut(text.Message, "\n")
		}
		why = strings.TrimPrefix(why, "org.opentest4j.TestAbortedException: ")
		return result{o, why[:min(len(why), 200)]}
	}
	switch {
	case c.Failure != nil:
		return told(failed, c.Failure)
	case c.Error != nil:
		return told(failed, c.Error)
	case c.Skipped != nil:
		return told(skipped, c.Skipped)
	}
	return result{outcome: passed}
}
