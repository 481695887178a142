package harness

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Record is one measured scenario: one side, or two against each other, with
// everything that is needed to judge, repeat and join it.
type Record struct {
	Provenance Provenance `json:"provenance"`
	Sweep      string     `json:"sweep"` // as --sweep takes it
	Op         string     `json:"op"`    // what was timed: "attention", "decode", ...
	Params     []Param    `json:"params"`
	Model      *ModelRef  `json:"model,omitempty"`
	// Lever is the setting that the sides differ in, "" for a single side.
	Lever string `json:"lever,omitempty"`
	// Differs is what a lever changes that chooses no kernels: memory, a grid.
	Differs string     `json:"differs_in,omitempty"`
	Sides   []Measured `json:"sides"`
	AB      *AB        `json:"ab,omitempty"` // of the two sides
	// Limits were measured in the same run.
	Limits []Limit `json:"limits,omitempty"`
	// GPU is the one whose time for a software device's bytes the sides have.
	GPU *GPU `json:"gpu,omitempty"`
	// Check is the comparison of side B's output with side A's, where they must be
	// near each other. Each side has its own with the reference.
	Check    *Comparison `json:"check,omitempty"`
	Warnings []string    `json:"warnings,omitempty"`
}

// ModelRef names a model file by content.
type ModelRef struct {
	Name   string `json:"name"`
	Type   string `json:"type"` // of its matrices: "q4_0", "q4_K_M"
	SHA256 string `json:"sha256"`
}

// Measured is one side of a record.
type Measured struct {
	Name      string    `json:"name"` // "MINFER_NO_FLASH=0"
	Levers    string    `json:"levers,omitempty"`
	Pipelines []string  `json:"pipelines,omitempty"` // dispatch-table entries that ran, sorted
	Inner     int       `json:"inner,omitempty"`     // executions in a row that each sample is the mean of
	Seconds   []float64 `json:"samples_s"`           // of one execution; one a round, matched with the other side's
	DeviceS   []float64 `json:"device_samples_s,omitempty"`
	Median    float64   `json:"median_s"`
	Work      Work      `json:"work"` // of one execution
	// WeightSet is the bytes of the weights that executions in a row took in turn, so
	// that no cache held those of the next; 0 where each took the same.
	WeightSet int64     `json:"weight_set_bytes,omitempty"`
	Counters  *Counters `json:"counters,omitempty"`
	// Matrices: simdgroup matrices multiply, so the limit of multiply-adds is theirs where
	// it was measured.
	Matrices bool `json:"matrices,omitempty"`
	// GPUSeconds is what the record's GPU takes for the bytes of Counters.
	GPUSeconds float64 `json:"gpu_s,omitempty"`
	// Check is the comparison of the output with its reference: a rate counts only
	// with it.
	Check  *Comparison `json:"check,omitempty"`
	Greedy string      `json:"greedy_sha256,omitempty"` // of the text that this side generates
}

// Work is what one execution does.
type Work struct {
	Tokens       int64 `json:"tokens,omitempty"`
	MultiplyAdds int64 `json:"multiply_adds,omitempty"`
	Bytes        int64 `json:"bytes,omitempty"` // that have to be read, at the least
}

// Counters are a software device's, of one execution: the same in every run. Bytes
// are those that loads and stores ask for, as if there were no cache.
type Counters struct {
	Dispatches   int64 `json:"dispatches"`
	BytesRead    int64 `json:"bytes_read"`
	BytesWritten int64 `json:"bytes_written"`
	Instructions int64 `json:"instructions"` // each once for a simdgroup
	Barriers     int64 `json:"barriers"`
	Divergent    int64 `json:"divergent"` // branches that part of a simdgroup's lanes take
}

// Add sums.
func (c *Counters) Add(d Counters) {
	c.Dispatches += d.Dispatches
	c.BytesRead += d.BytesRead
	c.BytesWritten += d.BytesWritten
	c.Instructions += d.Instructions
	c.Barriers += d.Barriers
	c.Divergent += d.Divergent
}

// GPU is a graphics processor that did not take part: its memory's rate, as its
// maker states it, turns counted bytes into time.
type GPU struct {
	Name string  `json:"name"`
	Read float64 `json:"bytes_per_s"`
}

// Limit is what the machine can do, measured beside the scenario.
type Limit struct {
	Name string  `json:"name"` // "read", "multiply_add", "multiply_add_int8", "multiply_add_matrix"
	Unit string  `json:"unit"` // "B/s", "1/s"
	Rate float64 `json:"rate"`
	// Bytes is the size of the buffer that was read again and again, where a cache
	// may hold it.
	Bytes int64 `json:"bytes,omitempty"`
}

// Rate is a side's rate with its unit: tokens, multiply-adds or bytes a second, the
// first that the work has.
func (m *Measured) Rate() (rate float64, unit string) {
	if m.Median <= 0 {
		return 0, ""
	}
	switch w := m.Work; {
	case w.Tokens > 0:
		return float64(w.Tokens) / m.Median, "tokens/s"
	case w.MultiplyAdds > 0:
		return float64(w.MultiplyAdds) / m.Median, "multiply-adds/s"
	default:
		return float64(w.Bytes) / m.Median, "B/s"
	}
}

// Share is how much of a limit a side reaches, and which one: the limit of its
// bytes or of its multiply-adds that is nearer. 0 without limits.
func (r *Record) Share(side int) (share float64, of string) { return r.share(&r.Sides[side]) }

const matrixLimit = "multiply_add_matrix"

// DeviceShare is Share in the device's own time, without what it costs the host to
// ask for the work: 0 where no timer of the device's was read.
func (r *Record) DeviceShare(side int) (share float64, of string) {
	m := &r.Sides[side]
	return r.shareIn(m, m.DeviceMedian())
}

// DeviceMedian is the median of the device's own times of an execution, 0 without any.
func (m *Measured) DeviceMedian() float64 {
	if len(m.DeviceS) == 0 {
		return 0
	}
	return MedianOf(m.DeviceS)
}

func (r *Record) share(m *Measured) (share float64, of string) { return r.shareIn(m, m.Median) }

func (r *Record) shareIn(m *Measured, seconds float64) (share float64, of string) {
	if seconds <= 0 {
		return 0, ""
	}
	arithmetic := matrixLimit
	if !m.Matrices || !slices.ContainsFunc(r.Limits, func(l Limit) bool { return l.Name == matrixLimit }) {
		arithmetic = ""
	}
	for _, l := range r.Limits {
		if l.Name == matrixLimit && arithmetic == "" || l.Name == "multiply_add" && arithmetic != "" {
			continue // the other kind
		}
		work := m.Work.Bytes
		if strings.HasPrefix(l.Name, "multiply_add") {
			work = m.Work.MultiplyAdds
		}
		if s := float64(work) / seconds / l.Rate; l.Rate > 0 && s > share {
			share, of = s, l.Name
		}
	}
	return share, of
}

// Key identifies a scenario across runs: what is measured, on which kind of
// device, with which model. Two records of one key can be compared.
func (r *Record) Key() string {
	id := ID{Suite: r.Sweep, Op: r.Op, Params: r.Params}
	key := id.String()
	if r.Model != nil {
		key += " model=" + r.Model.Name + " weights=" + r.Model.Type
	}
	if r.Lever != "" {
		key += " lever=" + r.Lever
	}
	return key + " device=" + strings.Join(strings.Fields(r.Provenance.Device), "_")
}

// A Table is rows of text under columns: what the formats for people print.
type Table struct {
	Columns []Column
	Rows    [][]string
}

// Column is a heading; numbers are set flush right.
type Column struct {
	Name    string
	Numeric bool
}

// BySweep cuts records by their sweep, in order of first appearance: a table of more
// than one would have more columns than cells.
func BySweep(records []Record) [][]Record {
	var groups [][]Record
	at := map[string]int{}
	for i := range records {
		g, ok := at[records[i].Sweep]
		if !ok {
			g = len(groups)
			at[records[i].Sweep] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], records[i])
	}
	return groups
}

// NewTable makes a table of records: parameters that differ between records become
// columns, the others are left out, then what was measured. Records of two sides
// have both medians and the ratio with its interval.
func NewTable(records []Record) Table {
	var t Table
	var cells [][]string
	add := func(name string, numeric bool, cell func(*Record) string, always bool) {
		column := make([]string, len(records))
		for i := range records {
			column[i] = cell(&records[i])
		}
		if !always && (len(column) == 0 || !slices.ContainsFunc(column, func(s string) bool { return s != column[0] })) {
			return
		}
		t.Columns = append(t.Columns, Column{name, numeric})
		cells = append(cells, column)
	}
	filled := func(name string, cell func(*Record) string) {
		for i := range records {
			if cell(&records[i]) != "" {
				add(name, true, cell, true)
				return
			}
		}
	}
	add("sweep", false, func(r *Record) string { return r.Sweep }, false)
	add("op", false, func(r *Record) string { return r.Op }, true)
	add("device", false, func(r *Record) string { return r.Provenance.Device }, false)
	add("model", false, func(r *Record) string { return modelField(r, func(m *ModelRef) string { return m.Name }) }, false)
	add("weights", false, func(r *Record) string { return modelField(r, func(m *ModelRef) string { return m.Type }) }, false)
	for _, key := range paramKeys(records) {
		add(key, isNumber(records, key), func(r *Record) string { return r.param(key) }, false)
	}
	add("lever", false, func(r *Record) string { return r.Lever }, false)
	side := func(i int, f func(*Record, *Measured) string) func(*Record) string {
		return func(r *Record) string {
			if i >= len(r.Sides) {
				return ""
			}
			return f(r, &r.Sides[i])
		}
	}
	two := slices.ContainsFunc(records, func(r Record) bool { return r.AB != nil })
	what := func(r *Record, m *Measured) string { return r.sideText(m) }
	if two {
		add("A", false, side(0, what), true)
		add("B", false, side(1, what), true)
	} else {
		add("side", false, side(0, what), false)
	}
	// each adds what both sides have, under two names where there are two.
	each := func(name string, cell func(*Record, *Measured) string) {
		if !two {
			filled(name, side(0, cell))
			return
		}
		filled(name+" A", side(0, cell))
		filled(name+" B", side(1, cell))
	}
	each("time", func(_ *Record, m *Measured) string { return seconds(m.Median) })
	each("device time", func(_ *Record, m *Measured) string { return seconds(m.DeviceMedian()) })
	each("rate", func(_ *Record, m *Measured) string { return rateText(m) })
	if two {
		filled("time B/A", func(r *Record) string {
			if r.AB == nil {
				return ""
			}
			return r.AB.Verdict()
		})
		filled("same text", sameText)
	}
	each("of limit", shareText)
	each("instructions", func(_ *Record, m *Measured) string {
		return counter(m, func(c *Counters) int64 { return c.Instructions })
	})
	each("bytes", func(_ *Record, m *Measured) string {
		return counter(m, func(c *Counters) int64 { return c.BytesRead + c.BytesWritten })
	})
	each("GPU time", func(r *Record, m *Measured) string {
		if r.GPU == nil || m.GPUSeconds == 0 {
			return ""
		}
		return seconds(m.GPUSeconds) + " (" + r.GPU.Name + ")"
	})
	for i := range records {
		row := make([]string, len(cells))
		for c := range cells {
			row[c] = cells[c][i]
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// sideText is a side in a table: the lever's value, and the kernels where they are
// few, without what the row says anyway.
func (r *Record) sideText(m *Measured) string {
	name := m.Name
	if r.Lever != "" {
		name = strings.TrimPrefix(name, r.Lever+"=")
	}
	if n := len(m.Pipelines); n == 0 || n > 4 {
		return name
	}
	own := r.Op + " "
	if slices.ContainsFunc(m.Pipelines, func(p string) bool { return !strings.HasPrefix(p, own) }) {
		own = "" // not all are the op's
	}
	var kernels []string
	for _, p := range m.Pipelines {
		kernels = append(kernels, strings.TrimPrefix(p, own))
	}
	return name + ": " + strings.Join(kernels, ", ")
}

func modelField(r *Record, f func(*ModelRef) string) string {
	if r.Model == nil {
		return ""
	}
	return f(r.Model)
}

// paramKeys are the keys of all records in order of first appearance.
func paramKeys(records []Record) []string {
	var keys []string
	for i := range records {
		for _, p := range records[i].Params {
			if !slices.Contains(keys, p.Key) {
				keys = append(keys, p.Key)
			}
		}
	}
	return keys
}

func (r *Record) param(key string) string {
	for _, p := range r.Params {
		if p.Key == key {
			return p.Value
		}
	}
	return ""
}

func isNumber(records []Record, key string) bool {
	for i := range records {
		if v := records[i].param(key); v != "" {
			if _, err := strconv.ParseFloat(v, 64); err != nil {
				return false
			}
		}
	}
	return true
}

// seconds prints a time with three digits and its unit.
func seconds(s float64) string {
	if s <= 0 {
		return ""
	}
	for _, u := range []struct {
		size float64
		name string
	}{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}} {
		if s >= u.size {
			return strconv.FormatFloat(s/u.size, 'g', 4, 64) + " " + u.name
		}
	}
	return strconv.FormatFloat(s*1e9, 'g', 4, 64) + " ns"
}

// rateText prints a rate with a decimal prefix.
func rateText(m *Measured) string {
	rate, unit := m.Rate()
	if rate == 0 {
		return ""
	}
	switch unit {
	case "tokens/s":
		return strconv.FormatFloat(rate, 'f', 1, 64) + " " + unit
	case "multiply-adds/s":
		unit = "madd/s"
	}
	return Prefixed(rate) + unit
}

// Prefixed prints a number with a decimal prefix before the unit: "12.34 G".
func Prefixed(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= u.size {
			return strconv.FormatFloat(v/u.size, 'f', 2, 64) + " " + u.name
		}
	}
	return strconv.FormatFloat(v, 'f', 2, 64) + " "
}

func sameText(r *Record) string {
	if len(r.Sides) < 2 || r.Sides[0].Greedy == "" {
		return ""
	}
	if r.Sides[0].Greedy == r.Sides[1].Greedy {
		return "yes"
	}
	return "no"
}

func shareText(r *Record, m *Measured) string {
	share, of := r.share(m)
	if share == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %% (%s)", 100*share, of)
}

func counter(m *Measured, f func(*Counters) int64) string {
	if m.Counters == nil {
		return ""
	}
	return strconv.FormatInt(f(m.Counters), 10)
}
