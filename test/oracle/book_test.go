package oracle

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// entry is one command of a scene, a question with its answers or a verb without.
type entry struct {
	comment string // with its line breaks, and empty lines
	line    string // the command
	input   string // what follows it
	asked   bool   // there is a part below "----"
	kafka   answers
	ours    []ours
}

// answers are what was said, by version.
type answers map[int16]string

// ours is an answer of moldau that is not Apache Kafka's.
type ours struct {
	from, to int16
	why      string // the row of docs/divergences.md
	text     string
}

// readBook reads a file of questions and answers; one that does not exist is empty.
func readBook(t *testing.T, path string) []*entry {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var book []*entry
	e := &entry{}
	flush := func() {
		if e.line != "" || e.comment != "" {
			book = append(book, e)
		}
		e = &entry{}
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			if e.line != "" {
				flush()
			}
			e.comment += line + "\n"
		case e.line == "":
			e.line = line
		case line == "----":
			e.asked, e.kafka = true, answers{}
		case !e.asked && isCommand(line) || e.asked && !isAnswer(line):
			flush()
			e.line = line
		case !e.asked:
			e.input += line + "\n"
		default:
			if err := e.readAnswer(line); err != nil {
				t.Fatalf("%s: %q: %v", path, line, err)
			}
		}
	}
	flush()
	return book
}

func isCommand(line string) bool { return line[0] >= 'a' && line[0] <= 'z' }

func isAnswer(line string) bool {
	return strings.HasPrefix(line, "ours ") || line[0] >= '0' && line[0] <= '9'
}

func (e *entry) readAnswer(line string) error {
	rest, isOurs := strings.CutPrefix(line, "ours ")
	versions, text, _ := strings.Cut(rest, " ")
	from, to, err := parseRange(versions)
	if err != nil {
		return err
	}
	if isOurs {
		why, said, ok := strings.Cut(strings.TrimPrefix(text, "("), ") ")
		if !ok {
			return fmt.Errorf("want (the row of docs/divergences.md that says why) after the versions")
		}
		e.ours = append(e.ours, ours{from, to, why, said})
		return nil
	}
	for v := from; v <= to; v++ {
		e.kafka[v] = text
	}
	return nil
}

// parseRange reads "3" or "3-5".
func parseRange(text string) (from, to int16, err error) {
	low, high, isRange := strings.Cut(text, "-")
	if !isRange {
		high = low
	}
	a, err := strconv.ParseInt(low, 10, 16)
	if err != nil {
		return 0, 0, err
	}
	b, err := strconv.ParseInt(high, 10, 16)
	return int16(a), int16(b), err
}

// write is the entry as its file has it.
func (e *entry) write(b *strings.Builder) {
	b.WriteString(e.comment)
	if e.line == "" {
		return
	}
	fmt.Fprintf(b, "%s\n%s", e.line, e.input)
	if !e.asked {
		return
	}
	b.WriteString("----\n")
	eachRange(e.kafka, func(versions, text string) { fmt.Fprintf(b, "%s %s\n", versions, text) })
	for _, o := range e.ours {
		fmt.Fprintf(b, "ours %s (%s) %s\n", showRange(o.from, o.to), o.why, o.text)
	}
}

func showRange(from, to int16) string {
	if from == to {
		return strconv.Itoa(int(from))
	}
	return fmt.Sprintf("%d-%d", from, to)
}

// eachRange calls f for runs of versions with the same answer, in ascending order.
func eachRange(a answers, f func(versions, text string)) {
	for v := int16(0); v < 100; v++ {
		text, ok := a[v]
		if !ok {
			continue
		}
		from := v
		for next, ok := a[v+1]; ok && next == text; next, ok = a[v+1] {
			v++
		}
		f(showRange(from, v), text)
	}
}

func writeBook(t *testing.T, path string, book []*entry) {
	t.Helper()
	var b strings.Builder
	for _, e := range book {
		e.write(&b)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// want is what moldau has to say in a version.
func (e *entry) want(version int16) string {
	for _, o := range e.ours {
		if version >= o.from && version <= o.to {
			return o.text
		}
	}
	return e.kafka[version]
}

// compare holds our answers against what the entry wants.
func (e *entry) compare(t *testing.T, said answers) {
	t.Helper()
	wrong := answers{}
	for v, text := range said {
		if want := e.want(v); text != want && !saysMore(text, want) {
			wrong[v] = text
		}
	}
	eachRange(wrong, func(versions, text string) {
		from, to, _ := parseRange(versions)
		if matched, _ := regexp.MatchString(*about, e.line); *accept != "" && matched {
			e.ours = append(e.ours, ours{from, to, *accept, text})
			return
		}
		t.Errorf("%s\nversions %s: %s\n%*s %s", e.line, versions, text, len(versions)+9, "want", e.want(from))
	})
	for _, o := range e.ours {
		for v := o.from; v <= o.to; v++ {
			if o.text == e.kafka[v] {
				t.Errorf("%s: version %d: ours is what Apache Kafka says, and the line can go", e.line, v)
			}
		}
		if !strings.Contains(divergences(t), "| "+o.why+" |") {
			t.Errorf("%s: docs/divergences.md has no row %q", e.line, o.why)
		}
	}
}

// saysMore reports whether ours is Apache Kafka's answer with more messages for people: it has none for some errors.
func saysMore(ours, kafkas string) bool {
	const message = " ErrorMessage:…"
	return strings.Count(ours, message) > strings.Count(kafkas, message) &&
		strings.ReplaceAll(ours, message, "") == strings.ReplaceAll(kafkas, message, "")
}

func divergences(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/divergences.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
