package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The chart's measures, in its own units.
const (
	chartWidth   = 900
	chartLabel   = 270 // of the figures' names
	chartNumbers = 210 // of what stands behind the bars
	barHeight    = 14
	barGap       = 3
	figureGap    = 14
	chartTop     = 58
)

// colours of systems, in the order in which they are compared. They differ in lightness, too.
var colours = [...]string{"#1f6f8b", "#e0a458", "#7fb2c4", "#b5651d"}

// writeCharts writes a chart of each workload as NAME.svg.
func (b *bench) writeCharts(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var errs []error
	for rows := b.results.rows; len(rows) > 0; {
		n := slices.IndexFunc(rows, func(r *row) bool { return r.workload != rows[0].workload })
		if n < 0 {
			n = len(rows)
		}
		errs = append(errs, os.WriteFile(filepath.Join(dir, rows[0].workload+".svg"), []byte(chart(b.systems, rows[:n])), 0o644))
		rows = rows[n:]
	}
	return errors.Join(errs...)
}

// chart draws the figures of one workload: for each a bar per system, as long as the median, with a line from the smallest sample
// to the largest, all to the scale of that figure, and the ratio of the first two systems.
func chart(systems []system, rows []*row) string {
	var s strings.Builder
	height := chartTop + len(rows)*(len(systems)*(barHeight+barGap)+figureGap) + 8
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", chartWidth, height)
	fmt.Fprintf(&s, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, height)
	fmt.Fprintf(&s, `<text x="10" y="22" font-size="16" font-weight="bold">%s</text>`+"\n", escape(rows[0].workload))
	for x, i := 10, 0; i < len(systems); i++ {
		fmt.Fprintf(&s, `<rect x="%d" y="34" width="12" height="12" fill="%s"/><text x="%d" y="45">%s</text>`+"\n",
			x, colours[i%len(colours)], x+17, escape(systems[i].name))
		x += 40 + 8*len(systems[i].name)
	}
	y := chartTop
	for _, r := range rows {
		drawFigure(&s, systems, r, y)
		y += len(systems)*(barHeight+barGap) + figureGap
	}
	s.WriteString("</svg>\n")
	return s.String()
}

func drawFigure(s *strings.Builder, systems []system, r *row, y int) {
	const left, right = chartLabel + 10, chartWidth - chartNumbers
	largest := 0.0
	for _, sys := range systems {
		if sp, ok := spreadOf(r.samples[sys.name]); ok {
			largest = max(largest, sp.Max)
		}
	}
	at := func(v float64) float64 {
		if largest <= 0 {
			return left
		}
		return left + max(0, v)/largest*(right-left)
	}
	better := "more is better"
	if r.figure.less {
		better = "less is better"
	}
	name := r.figure.name
	if r.figure.unit != "" {
		name += ", " + r.figure.unit
	}
	fmt.Fprintf(s, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", chartLabel, y+barHeight-2, escape(name))
	note := better
	if ratio, ok := r.ratio(systems); ok {
		note = fmt.Sprintf("ratio %.2f, %s", ratio, better)
	}
	fmt.Fprintf(s, `<text x="%d" y="%d" text-anchor="end" fill="#666666" font-size="11">%s</text>`+"\n", chartLabel, y+2*barHeight, note)
	for i, sys := range systems {
		sp, ok := spreadOf(r.samples[sys.name])
		top := y + i*(barHeight+barGap)
		if !ok {
			fmt.Fprintf(s, `<text x="%d" y="%d">–</text>`+"\n", left, top+barHeight-2)
			continue
		}
		middle := float64(top) + barHeight/2.0
		fmt.Fprintf(s, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", left, top, max(1, at(sp.Median)-left), barHeight, colours[i%len(colours)])
		fmt.Fprintf(s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#222222"/>`+"\n", at(sp.Min), middle, at(sp.Max), middle)
		fmt.Fprintf(s, `<text x="%d" y="%d">%s (%s … %s)</text>`+"\n", right+8, top+barHeight-2, number(sp.Median), number(sp.Min), number(sp.Max))
	}
}

func escape(text string) string {
	var s strings.Builder
	_ = xml.EscapeText(&s, []byte(text)) // a Builder does not fail
	return s.String()
}
