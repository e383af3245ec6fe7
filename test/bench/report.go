package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// machine is what a result must be read with.
type machine struct {
	Processors  int    `json:"processors"`
	MemoryBytes int64  `json:"memoryBytes"`
	Kernel      string `json:"kernel"`
	FileSystem  string `json:"fileSystem"` // of the data folders
	Go          string `json:"go"`
	Kafka       string `json:"kafka"`
}

// results are the figures of all runs, in the order in which they came first.
type results struct{ rows []*row }

// row is one figure of one workload.
type row struct {
	workload string
	about    string
	figure   figure // its value is unused
	samples  map[string][]float64
}

func (r *results) add(w workload, system string, figures []figure) {
	for _, f := range figures {
		at := slices.IndexFunc(r.rows, func(have *row) bool {
			return have.workload == w.name && have.figure.name == f.name && have.figure.unit == f.unit
		})
		if at < 0 {
			at = len(r.rows)
			r.rows = append(r.rows, &row{workload: w.name, about: w.about, figure: f, samples: make(map[string][]float64)})
		}
		r.rows[at].samples[system] = append(r.rows[at].samples[system], f.value)
	}
}

// spread is the middle and the ends of some samples.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(samples []float64) (spread, bool) {
	if len(samples) == 0 {
		return spread{}, false
	}
	sorted := slices.Sorted(slices.Values(samples))
	n := len(sorted)
	return spread{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}, true
}

// ratio is the first system's median by the second's.
func (r *row) ratio(systems []system) (float64, bool) {
	if len(systems) < 2 {
		return 0, false
	}
	ours, ok := spreadOf(r.samples[systems[0].name])
	theirs, also := spreadOf(r.samples[systems[1].name])
	return ours.Median / theirs.Median, ok && also && theirs.Median != 0
}

// writeTable prints one line per figure: medians, the spread behind them, and the ratio of the first two systems.
func (b *bench) writeTable(w io.Writer, m machine, command string) error {
	fmt.Fprintf(w, "%s\n%d processors, %.0f GiB, kernel %s, %s; %s; Apache Kafka %s; %d rounds\n", command,
		m.Processors, float64(m.MemoryBytes)/(1<<30), m.Kernel, m.FileSystem, m.Go, m.Kafka, b.scale.rounds)
	for _, s := range b.systems {
		fmt.Fprintf(w, "%s: %s\n", s.name, s.about)
	}
	fmt.Fprintf(w, "Each cell: median (smallest … largest). 1 MB = 1,000,000 bytes of record values.\n")
	last := ""
	var table *tabwriter.Writer
	for _, r := range b.results.rows {
		if r.workload != last {
			if table != nil {
				table.Flush()
			}
			last = r.workload
			fmt.Fprintf(w, "\n%s – %s\n", r.workload, r.about)
			table = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			fmt.Fprint(table, "  figure\tbetter")
			for _, s := range b.systems {
				fmt.Fprintf(table, "\t%s", s.name)
			}
			if len(b.systems) > 1 {
				fmt.Fprintf(table, "\t%s : %s", b.systems[0].name, b.systems[1].name)
			}
			fmt.Fprintln(table)
		}
		better := "more"
		if r.figure.less {
			better = "less"
		}
		fmt.Fprintf(table, "  %s\t%s", r.figure.name, better)
		for _, s := range b.systems {
			cell := "–"
			if sp, ok := spreadOf(r.samples[s.name]); ok {
				cell = fmt.Sprintf("%s %s (%s … %s)", number(sp.Median), r.figure.unit, number(sp.Min), number(sp.Max))
			}
			fmt.Fprintf(table, "\t%s", cell)
		}
		if ratio, ok := r.ratio(b.systems); ok {
			fmt.Fprintf(table, "\t%.2f", ratio)
		}
		fmt.Fprintln(table)
	}
	if table == nil {
		return nil
	}
	return table.Flush()
}

// number prints three significant digits and never an exponent.
func number(v float64) string {
	switch {
	case v >= 100 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}

// writeJSON prints every sample.
func (b *bench) writeJSON(w io.Writer, m machine, command string) error {
	type of struct {
		spread
		Samples []float64 `json:"samples"`
	}
	type line struct {
		Workload     string        `json:"workload"`
		Figure       string        `json:"figure"`
		Unit         string        `json:"unit"`
		LessIsBetter bool          `json:"lessIsBetter"`
		Systems      map[string]of `json:"systems"`
		Ratio        *float64      `json:"ratio,omitempty"` // of the first two systems
	}
	report := struct {
		Command string   `json:"command"`
		Machine machine  `json:"machine"`
		Systems []string `json:"systems"`
		Rounds  int      `json:"rounds"`
		Results []line   `json:"results"`
	}{Command: command, Machine: m, Rounds: b.scale.rounds}
	for _, s := range b.systems {
		report.Systems = append(report.Systems, s.name)
	}
	for _, r := range b.results.rows {
		l := line{Workload: r.workload, Figure: r.figure.name, Unit: r.figure.unit, LessIsBetter: r.figure.less, Systems: make(map[string]of)}
		for _, s := range b.systems {
			if sp, ok := spreadOf(r.samples[s.name]); ok {
				l.Systems[s.name] = of{sp, r.samples[s.name]}
			}
		}
		if ratio, ok := r.ratio(b.systems); ok {
			l.Ratio = &ratio
		}
		report.Results = append(report.Results, l)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}
