// Package page makes one HTML page of measured records: effects of levers with their
// intervals, rates against the depth of the KV cache and against the length of a
// prompt, kernels against the limits of their machine, and how scenarios changed from
// one record to the next. [Write] is all of it.
//
// The page is whole in itself: its style and its pictures are in it, it has no script,
// and its content security policy forbids every request. Each picture has a table
// with the same numbers. Equal records give equal bytes.
package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"minfer/harness"
)

//go:embed page.html
var source string

//go:embed page.css
var style string

var layout = template.Must(template.New("page").Parse(source))

// view is what the template shows.
type view struct {
	Title    string
	Style    template.CSS
	Summary  string
	Facts    []fact
	Problems []string
	Sections []section
}

type fact struct{ Name, Value string }

type section struct {
	ID, Title, Intro string
	Figures          []figure
	Empty            string // said where there is no figure
}

// Many says whether the section needs a list of what is in it.
func (s section) Many() bool { return len(s.Figures) > 2 }

type figure struct {
	ID, Title, Caption string
	Short              string // of the title, in lists; "" for all of it
	Chart, Legend      template.HTML
	Table              harness.Table
	Plain              bool // the table is the figure
}

// Write makes the page of records, of any number of runs.
func Write(w io.Writer, title string, records []harness.Record) error {
	newest := harness.Newest(records)
	v := view{Title: title, Style: template.CSS(style), Problems: problems(newest)}
	v.Summary, v.Facts = facts(records, newest)
	v.Sections = []section{
		levers(newest),
		against(newest, depthSection),
		against(newest, promptSection),
		limits(newest),
		history(records),
		counted(newest),
		runs(records),
	}
	for s := range v.Sections {
		for f := range v.Sections[s].Figures {
			v.Sections[s].Figures[f].ID = v.Sections[s].ID + "-" + strconv.Itoa(f+1)
		}
	}
	return layout.Execute(w, v)
}

func distinct(records []harness.Record, of func(*harness.Record) string) []string {
	var all []string
	for i := range records {
		if s := of(&records[i]); s != "" && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	slices.Sort(all)
	return all
}

func device(r *harness.Record) string { return r.Provenance.Device }

func modelName(r *harness.Record) string {
	if r.Model == nil {
		return ""
	}
	return joined(r.Model.Name, r.Model.Type)
}

func facts(records, newest []harness.Record) (string, []fact) {
	pairs, differ, none := 0, 0, 0
	for i := range newest {
		if ab := newest[i].AB; ab != nil {
			pairs++
			if ab.Differs() {
				differ++
			} else {
				none++
			}
		}
	}
	dates := distinct(records, func(r *harness.Record) string { return r.Provenance.Date })
	span := ""
	if len(dates) > 0 {
		first, last := day(dates[0]), day(dates[len(dates)-1])
		if span = first; first != last {
			span += " to " + last
		}
	}
	summary := fmt.Sprintf("%s of %s, measured %s.", count(len(newest), "scenario"), count(len(distinct(newest, device)), "device"), span)
	f := []fact{
		{"Devices", strings.Join(distinct(newest, device), ", ")},
		{"Models", models(newest)},
		{"Hosts", strings.Join(distinct(records, func(r *harness.Record) string { return r.Provenance.Host }), "; ")},
	}
	if pairs > 0 {
		f = append(f, fact{"Comparisons", fmt.Sprintf("%d, of which %d show a difference and %d show none", pairs, differ, none)})
	}
	return summary, slices.DeleteFunc(f, func(f fact) bool { return f.Value == "" })
}

// models lists each with its types of weights.
func models(records []harness.Record) string {
	var out []string
	for _, name := range distinct(records, func(r *harness.Record) string {
		if r.Model == nil {
			return ""
		}
		return r.Model.Name
	}) {
		types := distinct(records, func(r *harness.Record) string {
			if r.Model == nil || r.Model.Name != name {
				return ""
			}
			return r.Model.Type
		})
		out = append(out, name+" as "+strings.Join(types, ", "))
	}
	return strings.Join(out, "; ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// day is the date of a time in RFC 3339.
func day(date string) string { d, _, _ := strings.Cut(date, "T"); return d }

// fault is what makes a record's rates not count, "" for nothing.
func fault(r *harness.Record) string {
	for i := range r.Sides {
		if c := r.Sides[i].Check; c != nil && !c.OK() {
			return fmt.Sprintf("output of %s out of tolerance", r.Sides[i].Name)
		}
	}
	if r.Check != nil && !r.Check.OK() {
		return "outputs of the sides too far apart"
	}
	if r.SameText() == "no" {
		return "the sides generate different texts"
	}
	return ""
}

func problems(records []harness.Record) []string {
	var out []string
	for i := range records {
		if f := fault(&records[i]); f != "" {
			out = append(out, records[i].Key()+": "+f)
		}
	}
	return out
}

// groups cuts records by device and sweep, in order.
func groups(records []harness.Record, keep func(*harness.Record) bool) (heads [][2]string, of map[[2]string][]*harness.Record) {
	of = map[[2]string][]*harness.Record{}
	for i := range records {
		r := &records[i]
		if !keep(r) {
			continue
		}
		k := [2]string{device(r), r.Sweep}
		if of[k] == nil {
			heads = append(heads, k)
		}
		of[k] = append(of[k], r)
	}
	size := map[string]int{}
	for head, list := range of {
		size[head[0]] += len(list)
	}
	slices.SortStableFunc(heads, func(a, b [2]string) int {
		if size[a[0]] != size[b[0]] { // the device with most to say first
			return size[b[0]] - size[a[0]]
		}
		if a[0] != b[0] {
			return harness.Natural(a[0], b[0])
		}
		if of := (a[1] == "levers"); of != (b[1] == "levers") { // a lever a row: it says most
			if of {
				return -1
			}
			return 1
		}
		return harness.Natural(a[1], b[1])
	})
	return heads, of
}

// shortHead is a group's name in a list: its sweep, and its device where there are
// several.
func shortHead(head [2]string, heads [][2]string) string {
	for _, h := range heads {
		if h[0] != head[0] {
			return head[1] + " on " + head[0]
		}
	}
	return head[1]
}

// scenario is what a record measures, in words, without its lever.
func scenario(r *harness.Record) string {
	return joined(r.Op, r.ParamText(), modelName(r))
}

// shared gives what all records of a group share, in words, and how to say the rest
// of each.
func shared(records []*harness.Record) (common string, rest func(*harness.Record) string) {
	words := func(r *harness.Record) []string {
		w := []string{r.Op}
		for _, p := range r.Params {
			w = append(w, p.Key+"="+p.Value)
		}
		if m := modelName(r); m != "" {
			w = append(w, m)
		}
		return w
	}
	var all []string
	for i, r := range records {
		if w := words(r); i == 0 {
			all = w
		} else {
			all = slices.DeleteFunc(all, func(s string) bool { return !slices.Contains(w, s) })
		}
	}
	return strings.Join(all, " "), func(r *harness.Record) string {
		return strings.Join(slices.DeleteFunc(words(r), func(s string) bool { return slices.Contains(all, s) }), " ")
	}
}

// sidesText is what a lever's sides are: "MINFER_NO_FLASH 0 → 1".
func sidesText(r *harness.Record) string {
	a, okA := strings.CutPrefix(r.Sides[0].Name, r.Lever+"=")
	b, okB := strings.CutPrefix(r.Sides[1].Name, r.Lever+"=")
	if r.Lever != "" && okA && okB {
		return r.Lever + " " + a + " → " + b
	}
	return r.Sides[0].Name + " → " + r.Sides[1].Name
}

func interval(ratio, lo, hi float64) string {
	return fmt.Sprintf("%.3f (%.3f to %.3f)", ratio, lo, hi)
}

// levers is a forest plot for each device and sweep.
func levers(records []harness.Record) section {
	s := section{ID: "levers", Title: "What each lever does",
		Intro: "Both sides of a lever run interleaved in one process. A mark is the time of B over the time of A, the bar its 95 % interval: left of the line at 1, B is faster. Where the bar touches the line, no difference is shown, and the mark is hollow. A speed-up counts only if the outputs agree. The times of a software device say nothing about a GPU: its instructions, which have no noise, are given as a ratio too.",
		Empty: "No record compares two sides."}
	heads, of := groups(records, func(r *harness.Record) bool { return r.AB != nil })
	for _, head := range heads {
		var rows []row
		common, rest := shared(of[head])
		t := harness.Table{Columns: []harness.Column{{Name: "A"}, {Name: "B"}, {Name: "scenario"}, {Name: "time A", Numeric: true}, {Name: "time B", Numeric: true}, {Name: "B/A", Numeric: true}, {Name: "interval", Numeric: true}, {Name: "difference"}, {Name: "instructions B/A", Numeric: true}, {Name: "same text"}}}
		for _, r := range of[head] {
			ab := r.AB
			x := row{label: sidesText(r), detail: rest(r), mid: ab.Ratio, lo: ab.Lo, hi: ab.Hi, shown: ab.Differs()}
			x.value = interval(ab.Ratio, ab.Lo, ab.Hi)
			verdict := "none shown"
			switch {
			case !x.shown:
				x.value += "\nno difference shown"
			case ab.Hi < 1:
				verdict = "B faster"
			default:
				verdict = "B slower"
			}
			a, b := r.Sides[0].Counters, r.Sides[1].Counters
			instructions := ""
			if a != nil && b != nil && a.Instructions > 0 {
				instructions = fmt.Sprintf("%.3f", float64(b.Instructions)/float64(a.Instructions))
				x.value += "\ninstructions " + instructions
			}
			if f := fault(r); f != "" {
				x.fault = true
				x.value += "\n" + f
			} else if r.SameText() == "yes" {
				x.value += ", same text"
			}
			x.tip = fmt.Sprintf("%s, %s: %s", x.label, x.detail, strings.ReplaceAll(x.value, "\n", ", "))
			rows = append(rows, x)
			same := r.SameText()
			if same == "" {
				same = "not generated"
			}
			t.Rows = append(t.Rows, []string{r.Sides[0].Name, r.Sides[1].Name, scenario(r), harness.SecondsText(ab.MedianA), harness.SecondsText(ab.MedianB), fmt.Sprintf("%.3f", ab.Ratio), fmt.Sprintf("%.3f to %.3f", ab.Lo, ab.Hi), verdict, instructions, same})
		}
		title := fmt.Sprintf("Sweep %s on %s", head[1], head[0])
		s.Figures = append(s.Figures, figure{Title: title, Short: shortHead(head, heads), Caption: caption("Time of B over time of A with its 95 % interval; A → B", common),
			Chart: forest(fmt.Sprintf("Forest plot: %s. %s; the numbers are in the table below.", title, count(len(rows), "comparison")), rows), Table: t})
	}
	return s
}

// limits is bars of shares, and a roofline where both limits were measured.
func limits(records []harness.Record) section {
	s := section{ID: "limits", Title: "Kernels against their limit",
		Intro: "What a kernel reaches of what the machine can do, as measured in the same run: the rate at which memory can be read, or at which numbers can be multiplied and added, whichever is nearer. More than 100 % is what a cache held, or a limit that was measured while the machine had other work.",
		Empty: "No record has a limit measured beside it."}
	heads, of := groups(records, func(r *harness.Record) bool {
		share, _ := r.Share(0)
		return share > 0
	})
	for _, head := range heads {
		var rows []row
		common, rest := shared(of[head])
		t := harness.Table{Columns: []harness.Column{{Name: "side"}, {Name: "scenario"}, {Name: "time", Numeric: true}, {Name: "rate", Numeric: true}, {Name: "of limit", Numeric: true}, {Name: "limit"}}}
		names := map[string]int{}
		seen := map[string]bool{}
		for _, r := range of[head] {
			for i := range r.Sides {
				m := &r.Sides[i]
				share, limit := r.Share(i)
				if share == 0 {
					continue
				}
				// The default setting is side A of every lever: once is enough.
				id := joined(setting(r, m), scenario(r))
				if seen[id] {
					continue
				}
				seen[id] = true
				if _, ok := names[limit]; !ok {
					names[limit] = len(names)
				}
				x := row{label: setting(r, m), detail: rest(r), mid: share, shown: true, shape: names[limit]}
				x.value = fmt.Sprintf("%.1f %% of %s, %s", 100*share, limitText(limit), limitRate(m, limit))
				x.tip = joined(x.label, x.detail) + ": " + x.value
				rows = append(rows, x)
				t.Rows = append(t.Rows, []string{setting(r, m), scenario(r), harness.SecondsText(m.Median), m.RateText(), fmt.Sprintf("%.1f %%", 100*share), limitText(limit)})
			}
		}
		title := fmt.Sprintf("Sweep %s on %s", head[1], head[0])
		s.Figures = append(s.Figures, figure{Title: title, Short: shortHead(head, heads), Caption: caption("Share of the nearer limit", common),
			Chart: bars("Bar chart: "+title+". The numbers are in the table below.", rows), Table: t})
		if f, ok := roofline(head, of[head]); ok {
			f.Short = shortHead(head, heads) + " (roofline)"
			s.Figures = append(s.Figures, f)
		}
	}
	return s
}

func caption(what, common string) string {
	if common == "" {
		return what + "."
	}
	return what + ". All rows: " + common + "."
}

// setting is what a side runs with: of a lever's, all that differs from the default.
func setting(r *harness.Record, m *harness.Measured) string {
	switch {
	case r.Lever == "":
		return m.Name
	case m.Levers == "":
		return "default"
	}
	return m.Levers
}

func limitText(name string) string {
	switch name {
	case "read":
		return "reading"
	case "multiply_add":
		return "arithmetic"
	case "multiply_add_int8":
		return "int8 arithmetic"
	case "multiply_add_matrix":
		return "matrix arithmetic"
	}
	return strings.ReplaceAll(name, "_", " ")
}

// limitRate is the rate that a side is held against a limit with.
func limitRate(m *harness.Measured, limit string) string {
	n, unit := m.Work.Bytes, "B/s"
	if strings.HasPrefix(limit, "multiply_add") {
		n, unit = m.Work.MultiplyAdds, "/s"
	}
	text := short(float64(n) / m.Median)
	if last := text[len(text)-1]; '0' <= last && last <= '9' {
		text += " "
	}
	return text + unit
}

// roofline puts multiply-adds a second against multiply-adds a byte.
func roofline(head [2]string, records []*harness.Record) (figure, bool) {
	p := plot{x: "multiply-adds per byte that must be read", y: "multiply-adds per second", logX: true, logY: true, loose: true}
	t := harness.Table{Columns: []harness.Column{{Name: "op"}, {Name: "scenario"}, {Name: "multiply-adds/byte", Numeric: true}, {Name: "multiply-adds/s", Numeric: true}}}
	var read float64
	flat := map[string]float64{}
	at := map[string]int{}
	for _, r := range records {
		for _, l := range r.Limits {
			switch l.Name {
			case "read":
				read = max(read, l.Rate)
			case "multiply_add", "multiply_add_int8", "multiply_add_matrix":
				flat[l.Name] = max(flat[l.Name], l.Rate)
			}
		}
		for i := range r.Sides {
			m := &r.Sides[i]
			if m.Work.Bytes == 0 || m.Work.MultiplyAdds == 0 || m.Median <= 0 {
				continue
			}
			k, ok := at[r.Op]
			if !ok {
				if len(p.series) == 6 {
					continue
				}
				k = len(p.series)
				at[r.Op] = k
				p.series = append(p.series, series{name: r.Op})
			}
			d := dot{x: float64(m.Work.MultiplyAdds) / float64(m.Work.Bytes), y: float64(m.Work.MultiplyAdds) / m.Median}
			d.lo, d.hi = d.y, d.y
			d.tip = fmt.Sprintf("%s %s: %.3g per byte, %s/s", m.Name, scenario(r), d.x, short(d.y))
			p.series[k].dots = append(p.series[k].dots, d)
			t.Rows = append(t.Rows, []string{r.Op, joined(m.Name, scenario(r)), fmt.Sprintf("%.3g", d.x), short(d.y)})
		}
	}
	if read == 0 || len(flat) == 0 || len(p.series) == 0 {
		return figure{}, false
	}
	for _, name := range slices.Sorted(maps.Keys(flat)) {
		p.roofs = append(p.roofs, roof{read, flat[name]})
	}
	title := fmt.Sprintf("Roofline of sweep %s on %s", head[1], head[0])
	p.label = title + ". The numbers are in the table below."
	return figure{Title: title, Caption: "The bent line is the limit: read bandwidth on the left, arithmetic on the right. A mark is one side of a scenario.", Chart: p.draw(), Legend: p.legend(), Table: t}, true
}

// counted is what a software device counts.
func counted(records []harness.Record) section {
	s := section{ID: "counters", Title: "What a software device counted",
		Intro: "Counts are the same in every run and on every machine, so any change is one of the code. Bytes are those that loads and stores ask for, as if there were no cache.",
		Empty: "No record has counters."}
	heads, of := groups(records, func(r *harness.Record) bool { return r.Sides[0].Counters != nil })
	for _, head := range heads {
		t := harness.Table{Columns: []harness.Column{{Name: "side"}, {Name: "scenario"}}}
		for _, c := range (&harness.Counters{}).List() {
			t.Columns = append(t.Columns, harness.Column{Name: c.Name, Numeric: true})
		}
		for _, r := range of[head] {
			for i := range r.Sides {
				c := r.Sides[i].Counters
				if c == nil {
					continue
				}
				cells := []string{r.Sides[i].Name, scenario(r)}
				for _, n := range c.List() {
					cells = append(cells, strconv.FormatInt(n.N, 10))
				}
				t.Rows = append(t.Rows, cells)
			}
		}
		s.Figures = append(s.Figures, figure{Title: fmt.Sprintf("Sweep %s on %s", head[1], head[0]), Short: shortHead(head, heads), Table: t, Plain: true})
	}
	return s
}

// runs says where the numbers come from.
func runs(records []harness.Record) section {
	s := section{ID: "runs", Title: "Where the numbers come from", Intro: "Each run with its commit, machine and command, and what should be known of its records.", Empty: "No run."}
	t := harness.Table{Columns: []harness.Column{{Name: "date"}, {Name: "commit"}, {Name: "host"}, {Name: "device"}, {Name: "settings"}, {Name: "command"}, {Name: "records", Numeric: true}}}
	seen := map[harness.Provenance]int{}
	var order []harness.Provenance
	w := harness.Table{Columns: []harness.Column{{Name: "scenario"}, {Name: "date"}, {Name: "warning"}}}
	for i := range records {
		p := records[i].Provenance
		p.Date = day(p.Date)
		if seen[p] == 0 {
			order = append(order, p)
		}
		seen[p]++
		warnings := slices.Clone(records[i].Warnings)
		if ab := records[i].AB; ab != nil {
			for _, s := range ab.Warnings {
				if !slices.Contains(warnings, s) {
					warnings = append(warnings, s)
				}
			}
		}
		for _, text := range warnings {
			w.Rows = append(w.Rows, []string{records[i].Key(), p.Date, text})
		}
	}
	slices.SortStableFunc(order, func(a, b harness.Provenance) int { return strings.Compare(a.Date, b.Date) })
	for _, p := range order {
		t.Rows = append(t.Rows, []string{p.Date, fmt.Sprintf("%.12s", p.Commit), p.Host, p.Device, p.Levers, p.Command, strconv.Itoa(seen[p])})
	}
	if len(t.Rows) > 0 {
		s.Figures = append(s.Figures, figure{Title: "Runs", Table: t, Plain: true})
	}
	if len(w.Rows) > 0 {
		s.Figures = append(s.Figures, figure{Title: "Warnings", Table: w, Plain: true})
	}
	return s
}
