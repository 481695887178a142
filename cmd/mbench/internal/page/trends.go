package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"minfer/harness"
)

// axisSection is a section of rates against one parameter.
type axisSection struct {
	id, title, intro, empty, x string
	keys                       []string // names that the parameter has
}

var depthSection = axisSection{
	id: "depth", title: "Rate against the depth of the KV cache", x: "cells in the KV cache",
	intro: "Medians with their 95 % intervals: how a rate holds up as attention has more to read.",
	empty: "No scenario was measured at two depths.",
	keys:  []string{"n_kv", "kv", "depth"},
}

var promptSection = axisSection{
	id: "prompt", title: "Rate against the length of the prompt", x: "tokens of the prompt",
	intro: "Medians with their 95 % intervals: what a batch of tokens gains over one at a time.",
	empty: "No scenario was measured with two lengths.",
	keys:  []string{"pp", "n_prompt", "n_tokens", "n"},
}

// mostSeries is what one chart can hold and still be read.
const mostSeries = 6

// curve is a series with what it may be told apart by.
type curve struct {
	series
	words map[string]string // by name of the property
	kinds []string          // kernels that ran, where they say more than the setting
	rows  [][]string
}

// against makes charts of rates over a parameter. Sides that differ in nothing but
// it are one series; charts are cut by properties until each can be read.
func against(records []harness.Record, a axisSection) section {
	s := section{ID: a.id, Title: a.title, Intro: a.intro, Empty: a.empty}
	var curves []*curve
	at := map[string]*curve{}
	var properties []string
	for i := range records {
		r := &records[i]
		key := ""
		for _, k := range a.keys {
			if r.Param(k) != "" {
				key = k
				break
			}
		}
		x, err := strconv.ParseFloat(r.Param(key), 64)
		if err != nil {
			continue
		}
		for side := range r.Sides {
			m := &r.Sides[side]
			rate, unit := m.Rate()
			if rate == 0 {
				continue
			}
			words := map[string]string{"unit": unit, "device": device(r), "sweep": r.Sweep, "op": r.Op, "model": "", "weights": "", "lever": r.Lever, "side": m.Name}
			if r.Model != nil {
				words["model"], words["weights"] = r.Model.Name, r.Model.Type
			}
			names := []string{"device", "sweep", "op", "model", "weights", "lever"}
			for _, p := range r.Params {
				if p.Key != key {
					words["="+p.Key] = p.Value
					names = append(names, "="+p.Key)
				}
			}
			names = append(names, "side")
			for _, n := range names {
				if !slices.Contains(properties, n) {
					properties = append(properties, n)
				}
			}
			id := unit
			for _, n := range names {
				id += "\x00" + words[n]
			}
			c := at[id]
			if c == nil {
				c = &curve{words: words}
				at[id] = c
				curves = append(curves, c)
			}
			work := rate * m.Median
			mid, lo, hi := harness.MedianInterval(m.Seconds, 0.95)
			d := dot{x: x, y: rate, lo: rate, hi: rate}
			if mid > 0 {
				d.lo, d.hi = work/hi, work/lo
			}
			d.tip = fmt.Sprintf("%s, %s %s: %s", m.Name, key, r.Param(key), m.RateText())
			if slices.ContainsFunc(c.dots, func(o dot) bool { return o.x == x }) {
				continue
			}
			if k := variants(m); !slices.Contains(c.kinds, k) {
				c.kinds = append(c.kinds, k)
			}
			c.dots = append(c.dots, d)
			c.rows = append(c.rows, []string{r.Param(key), m.RateText(), harness.SecondsText(m.Median)})
		}
	}
	curves = slices.DeleteFunc(curves, func(c *curve) bool { return len(c.dots) < 2 })
	for _, group := range parts(curves, "device", "sweep", "op", "unit") { // never in one chart
		cut := bestCut(group, properties)
		for _, chart := range parts(group, cut...) {
			for c := range slices.Chunk(chart, mostSeries) {
				s.Figures = append(s.Figures, curveChart(c).figure(a, properties, cut))
			}
		}
	}
	return s
}

// curveChart is the curves of one chart.
type curveChart []*curve

// parts are the curves by some of their properties, in order of first appearance.
func parts(curves []*curve, properties ...string) (out [][]*curve) {
	at := map[string]int{}
	for _, c := range curves {
		k := ""
		for _, p := range properties {
			k += "\x00" + c.words[p]
		}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], c)
	}
	return out
}

// bestCut gives the properties by which to cut curves into the fewest charts that can
// be read, at most three of them. What sides differ in is left together if it can be:
// that is what a chart compares.
func bestCut(curves []*curve, properties []string) []string {
	var may []string
	for _, p := range properties {
		if p != "lever" && p != "side" && len(parts(curves, p)) > 1 {
			may = append(may, p)
		}
	}
	var best []string
	fewest := 0
	try := func(cut ...string) {
		charts := parts(curves, cut...)
		readable := !slices.ContainsFunc(charts, func(c []*curve) bool { return len(c) > mostSeries })
		if readable && (fewest == 0 || len(charts) < fewest) {
			best, fewest = cut, len(charts)
		}
	}
	try()
	for i, p := range may {
		try(p)
		for k, q := range may[i+1:] {
			try(p, q)
			for _, r := range may[i+1+k+1:] {
				try(p, q, r)
			}
		}
	}
	if fewest == 0 {
		return append(may, "lever")
	}
	return best
}

// variants are the kernels that a side ran, by what tells those of one op apart:
// "flash_decode_64 + combine".
func variants(m *harness.Measured) string {
	var out []string
	for _, id := range m.Pipelines {
		words := strings.Fields(id)
		if len(words) < 2 || words[0] != strings.Fields(m.Pipelines[0])[0] {
			return ""
		}
		out = append(out, words[len(words)-1])
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	if len(out) > 3 {
		return ""
	}
	return strings.Join(out, " + ")
}

func (c curveChart) figure(a axisSection, properties, cut []string) figure {
	var shared, varying []string
	for _, p := range properties {
		if p == "device" || p == "sweep" || p == "op" {
			continue
		}
		same := true
		for _, x := range c {
			same = same && x.words[p] == c[0].words[p]
		}
		switch {
		case !same:
			varying = append(varying, p)
		case c[0].words[p] != "":
			shared = append(shared, propertyText(p, c[0].words[p]))
		}
	}
	f := c[0].words
	short := f["op"]
	for i, p := range cut {
		if text := propertyText(p, f[p]); text != "" {
			short += [...]string{": ", ", "}[min(i, 1)] + text
		}
	}
	title := fmt.Sprintf("%s (sweep %s on %s)", short, f["sweep"], f["device"])
	p := plot{x: a.x, y: f["unit"], zero: true}
	t := harness.Table{Columns: []harness.Column{{Name: "series"}, {Name: a.x, Numeric: true}, {Name: "rate", Numeric: true}, {Name: "time", Numeric: true}}}
	var lowest, highest, least, most float64
	for _, x := range c {
		var words []string
		for _, v := range varying {
			if v == "lever" && len(varying) > 1 { // its sides say it
				continue
			}
			words = append(words, propertyText(v, x.words[v]))
		}
		x.name = strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), ", ")
		if x.name == "" {
			x.name = x.words["side"]
		}
		if len(x.kinds) == 1 && x.kinds[0] != "" {
			x.name += ": " + x.kinds[0]
		}
		for i, d := range x.dots {
			if least == 0 {
				lowest, highest, least, most = d.y, d.y, d.x, d.x
			}
			lowest, highest = min(lowest, d.y), max(highest, d.y)
			least, most = min(least, d.x), max(most, d.x)
			t.Rows = append(t.Rows, append([]string{x.name}, x.rows[i]...))
		}
		slices.SortFunc(x.dots, func(a, b dot) int {
			if a.x < b.x {
				return -1
			}
			return 1
		})
		p.series = append(p.series, x.series)
	}
	p.logX = least > 0 && most/least >= 8
	p.logY = lowest > 0 && highest/lowest >= 30
	p.label = fmt.Sprintf("Line chart: %s. %s against %s, %s; the numbers are in the table below.", title, f["unit"], a.x, count(len(c), "series"))
	caption := f["unit"] + " against " + a.x
	if len(shared) > 0 {
		caption += "; " + strings.Join(shared, ", ")
	}
	return figure{Title: title, Short: short, Caption: caption + ".", Chart: p.draw(), Legend: p.legend(), Table: t}
}

func propertyText(name, value string) string {
	if value == "" {
		return ""
	}
	if k, ok := strings.CutPrefix(name, "="); ok {
		return k + " " + value
	}
	return value
}

// mostHistory is how many scenarios of a sweep are drawn, those that changed most;
// the others are in a table.
const mostHistory = 2 * mostSeries

// past is one side of a scenario through the runs of one host.
type past struct {
	records []*harness.Record // by date
	side    int
}

func (p *past) measured(i int) *harness.Measured { return &p.records[i].Sides[p.side] }

// moved is how far the last median is from the first.
func (p *past) moved() float64 {
	return math.Abs(math.Log(p.measured(len(p.records)-1).Median / p.measured(0).Median))
}

// history is how scenarios that were measured more than once changed: medians over
// the first one's, each on one host, and counters.
func history(records []harness.Record) section {
	s := section{ID: "history", Title: "History",
		Intro: "Scenarios that were measured more than once, those that changed most first: each median over that of the first record, with the 95 % interval of the ratio. Times are followed on one host only; the samples of different runs are not matched, so what else changed on the machine is in them too. Counters have no noise.",
		Empty: "No scenario was measured at two dates yet."}
	sorted := slices.Clone(records)
	slices.SortStableFunc(sorted, func(a, b harness.Record) int { return strings.Compare(a.Provenance.Date, b.Provenance.Date) })
	var heads [][2]string // sweep on device, host
	of := map[[2]string][]*past{}
	at := map[string]*past{}
	for i := range sorted {
		r := &sorted[i]
		for side := range r.Sides {
			key := r.Key() + "\x00" + r.Provenance.Host + "\x00" + r.Sides[side].Name
			l := at[key]
			if l == nil {
				l = &past{side: side}
				at[key] = l
				head := [2]string{fmt.Sprintf("Sweep %s on %s", r.Sweep, device(r)), r.Provenance.Host}
				if of[head] == nil {
					heads = append(heads, head)
				}
				of[head] = append(of[head], l)
			}
			if n := len(l.records); n > 0 && l.records[n-1].Provenance.Date == r.Provenance.Date || r.Sides[side].Median <= 0 {
				continue
			}
			l.records = append(l.records, r)
		}
	}
	for _, head := range heads {
		lines := slices.DeleteFunc(of[head], func(l *past) bool { return len(l.records) < 2 })
		slices.SortStableFunc(lines, func(a, b *past) int { return cmp.Compare(b.moved(), a.moved()) })
		drawn := lines[:min(len(lines), mostHistory)]
		for chunk := range slices.Chunk(drawn, mostSeries) {
			s.Figures = append(s.Figures, historyChart(head[0], head[1], chunk))
		}
		if rest := lines[len(drawn):]; len(rest) > 0 {
			s.Figures = append(s.Figures, figure{Title: fmt.Sprintf("%s: %s that changed less", head[0], count(len(rest), "side")), Table: historyTable(rest), Plain: true})
		}
	}
	return s
}

// overFirst compares record i of a past with its first.
func (p *past) overFirst(i int) harness.Interval {
	if i == 0 {
		return harness.Interval{Ratio: 1, Lo: 1, Hi: 1}
	}
	r := harness.RatioOfMedians(p.measured(0).Seconds, p.measured(i).Seconds, 0.95)
	if r.Ratio == 0 { // no samples are kept
		r.Ratio = p.measured(i).Median / p.measured(0).Median
	}
	return r
}

func historyChart(title, host string, lines []*past) figure {
	var dates []string
	var all []*harness.Record
	for _, l := range lines {
		all = append(all, l.records[0])
		for _, r := range l.records {
			if !slices.Contains(dates, r.Provenance.Date) {
				dates = append(dates, r.Provenance.Date)
			}
		}
	}
	slices.Sort(dates)
	common, rest := shared(all)
	p := plot{x: "date and commit", y: "time over that of the first record", xTicks: make([]string, len(dates)), one: true}
	for _, l := range lines {
		c := series{name: joined(l.measured(0).Name, rest(l.records[0]))}
		for i, r := range l.records {
			n := slices.Index(dates, r.Provenance.Date)
			p.xTicks[n] = strings.TrimPrefix(day(r.Provenance.Date), "20") + " " + fmt.Sprintf("%.7s", r.Provenance.Commit)
			v := l.overFirst(i)
			d := dot{x: float64(n), y: v.Ratio, lo: v.Lo, hi: v.Hi, tip: fmt.Sprintf("%s, %s: %s", c.name, r.Provenance.Date, v)}
			if v.Hi == 0 {
				d.lo, d.hi = v.Ratio, v.Ratio
			}
			c.dots = append(c.dots, d)
		}
		p.series = append(p.series, c)
	}
	p.label = fmt.Sprintf("Line chart: history of %s; the numbers are in the table below.", title)
	return figure{Title: title, Caption: caption("On "+host, common), Short: strings.TrimPrefix(title, "Sweep "), Chart: p.draw(), Legend: p.legend(), Table: historyTable(lines)}
}

func historyTable(lines []*past) harness.Table {
	t := harness.Table{Columns: []harness.Column{{Name: "scenario"}, {Name: "date"}, {Name: "commit"}, {Name: "time", Numeric: true}, {Name: "over the first", Numeric: true}, {Name: "instructions", Numeric: true}, {Name: "bytes read", Numeric: true}}}
	for _, l := range lines {
		for i, r := range l.records {
			m := l.measured(i)
			text := "1"
			if i > 0 {
				text = l.overFirst(i).String()
			}
			instructions, bytes := "", ""
			if k := m.Counters; k != nil {
				instructions, bytes = strconv.FormatInt(k.Instructions, 10), strconv.FormatInt(k.BytesRead, 10)
			}
			t.Rows = append(t.Rows, []string{joined(m.Name, scenario(r)), r.Provenance.Date, fmt.Sprintf("%.12s", r.Provenance.Commit), harness.SecondsText(m.Median), text, instructions, bytes})
		}
	}
	return t
}
