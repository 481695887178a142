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
	slices.SortStableFunc(curves, func(a, b *curve) int { // whole models first
		return boolFirst(a.words["unit"] == "tokens/s", b.words["unit"] == "tokens/s")
	})
	several := len(parts(curves, "device")) > 1
	for _, group := range parts(curves, "device", "sweep", "op", "unit") { // never in one chart
		cut := bestCut(group, properties)
		for _, chart := range parts(group, cut...) {
			for c := range slices.Chunk(chart, mostSeries) {
				f := curveChart(c).figure(a, properties, cut)
				if several {
					f.Short += " on " + c[0].words["device"]
				}
				s.Figures = append(s.Figures, f)
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

// past is a scenario through the runs of one host: of two sides the ratio, which the
// machine's mood is not in, of one side its time.
type past struct {
	records []*harness.Record // by date
	pair    bool
}

// at is what record i shows.
func (p *past) at(i int) harness.Interval {
	r := p.records[i]
	if p.pair {
		return harness.Interval{Ratio: r.AB.Ratio, Lo: r.AB.Lo, Hi: r.AB.Hi}
	}
	if i == 0 {
		return harness.Interval{Ratio: 1, Lo: 1, Hi: 1}
	}
	first := &p.records[0].Sides[0]
	v := harness.RatioOfMedians(first.Seconds, r.Sides[0].Seconds, 0.95)
	if v.Ratio == 0 { // no samples are kept
		v.Ratio = r.Sides[0].Median / first.Median
	}
	return v
}

// name is the scenario's, without what all of a chart share.
func (p *past) name(rest func(*harness.Record) string) string {
	r := p.records[0]
	if p.pair {
		return joined(sidesText(r), rest(r))
	}
	if text := rest(r); text != "" {
		return text
	}
	return r.Sides[0].Name
}

// moved is how far the last value is from the first.
func (p *past) moved() float64 {
	return math.Abs(math.Log(p.at(len(p.records)-1).Ratio / p.at(0).Ratio))
}

// history is how scenarios that were measured more than once changed.
func history(records []harness.Record) section {
	s := section{ID: "history", Title: "History",
		Intro: "Scenarios that were measured more than once, those that changed most first. Of a lever it is the ratio of its sides, B over A, each from the matched rounds of its own run. Of a single side it is the time over that of the first record, on one host: what else changed on that machine is in it too. Counters have no noise.",
		Empty: "No scenario was measured at two dates yet."}
	sorted := slices.Clone(records)
	slices.SortStableFunc(sorted, func(a, b harness.Record) int { return strings.Compare(a.Provenance.Date, b.Provenance.Date) })
	type head struct {
		device, sweep, host string
		pair                bool
	}
	var heads []head
	of := map[head][]*past{}
	at := map[string]*past{}
	for i := range sorted {
		r := &sorted[i]
		if r.Sides[0].Median <= 0 {
			continue
		}
		key := fmt.Sprint(r.Key(), "\x00", r.Provenance.Host, "\x00", r.AB != nil)
		l := at[key]
		if l == nil {
			l = &past{pair: r.AB != nil}
			at[key] = l
			h := head{device(r), r.Sweep, r.Provenance.Host, l.pair}
			if of[h] == nil {
				heads = append(heads, h)
			}
			of[h] = append(of[h], l)
		}
		if n := len(l.records); n == 0 || l.records[n-1].Provenance.Date != r.Provenance.Date {
			l.records = append(l.records, r)
		}
	}
	slices.SortStableFunc(heads, func(a, b head) int {
		return cmp.Or(boolFirst(a.sweep == "levers", b.sweep == "levers"), boolFirst(a.pair, b.pair), harness.Natural(a.device+a.sweep, b.device+b.sweep))
	})
	for _, h := range heads {
		lines := slices.DeleteFunc(of[h], func(l *past) bool { return len(l.records) < 2 })
		slices.SortStableFunc(lines, func(a, b *past) int { return cmp.Compare(b.moved(), a.moved()) })
		title, short := fmt.Sprintf("Sweep %s on %s", h.sweep, h.device), h.sweep+" on "+h.device
		if !h.pair {
			title, short = title+", single sides", short+", single sides"
		}
		drawn := lines[:min(len(lines), mostHistory)]
		n := 0
		for chunk := range slices.Chunk(drawn, mostSeries) {
			part := ""
			if n++; len(drawn) > mostSeries {
				part = fmt.Sprintf(" (%d)", n)
			}
			f := historyChart(title+part, h.host, chunk)
			f.Short = short + part
			s.Figures = append(s.Figures, f)
		}
		if rest := lines[len(drawn):]; len(rest) > 0 {
			s.Figures = append(s.Figures, figure{Title: fmt.Sprintf("%s: %s that changed less", title, count(len(rest), "scenario")), Short: short + " (others)", Table: historyTable(rest), Plain: true})
		}
	}
	return s
}

// boolFirst orders true before false.
func boolFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
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
	if lines[0].pair {
		p.y = "time of B over time of A"
	}
	for _, l := range lines {
		c := series{name: l.name(rest)}
		for i, r := range l.records {
			n := slices.Index(dates, r.Provenance.Date)
			p.xTicks[n] = strings.TrimPrefix(day(r.Provenance.Date), "20") + " " + fmt.Sprintf("%.7s", r.Provenance.Commit)
			v := l.at(i)
			d := dot{x: float64(n), y: v.Ratio, lo: v.Lo, hi: v.Hi, tip: fmt.Sprintf("%s, %s: %s", c.name, r.Provenance.Date, v)}
			if v.Hi == 0 {
				d.lo, d.hi = v.Ratio, v.Ratio
			}
			c.dots = append(c.dots, d)
		}
		p.series = append(p.series, c)
	}
	ends := func() (lo, hi float64) { _, y := p.ends(); return y[0], y[1] }
	if lo, hi := ends(); lo > 0 && hi/lo > 4 {
		p.logY = true
	}
	p.label = fmt.Sprintf("Line chart: history of %s; the numbers are in the table below.", title)
	return figure{Title: title, Caption: caption("On "+host, common), Chart: p.draw(), Legend: p.legend(), Table: historyTable(lines)}
}

func historyTable(lines []*past) harness.Table {
	t := harness.Table{Columns: []harness.Column{{Name: "scenario"}, {Name: "date"}, {Name: "commit"}, {Name: "time", Numeric: true}, {Name: "ratio", Numeric: true}, {Name: "instructions", Numeric: true}, {Name: "bytes read", Numeric: true}}}
	for _, l := range lines {
		for i, r := range l.records {
			var times, instructions, bytes []string
			for k := range r.Sides {
				m := &r.Sides[k]
				times = append(times, harness.SecondsText(m.Median))
				if c := m.Counters; c != nil {
					instructions, bytes = append(instructions, strconv.FormatInt(c.Instructions, 10)), append(bytes, strconv.FormatInt(c.BytesRead, 10))
				}
			}
			name := l.name(scenario)
			t.Rows = append(t.Rows, []string{name, r.Provenance.Date, fmt.Sprintf("%.12s", r.Provenance.Commit), strings.Join(times, " → "), l.at(i).String(), strings.Join(instructions, " → "), strings.Join(bytes, " → ")})
		}
	}
	return t
}
