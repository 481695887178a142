package harness

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is a ratio of two times with its interval of confidence. Lo and Hi are 0
// where the samples are too few to give one.
type Interval struct {
	Ratio float64 `json:"ratio"`
	Lo    float64 `json:"ratio_lo,omitempty"`
	Hi    float64 `json:"ratio_hi,omitempty"`
	// Matched: the samples were taken in the same rounds of one run.
	Matched bool `json:"matched,omitempty"`
}

// leastSamples is how many samples span their distribution's median with 95 %: the
// chance that n samples all lie on one side of it is 2^(1-n).
const leastSamples = 6

// Differs says whether there is an interval and it leaves out 1.
func (i Interval) Differs() bool { return i.Lo > 1 || i.Hi > 0 && i.Hi < 1 }

// String is the interval in words, as [AB.Verdict] has it.
func (i Interval) String() string {
	switch {
	case i.Ratio == 0:
		return ""
	case i.Hi == 0:
		return fmt.Sprintf("%.3f, too few samples to show a difference", i.Ratio)
	}
	return (&AB{Ratio: i.Ratio, Lo: i.Lo, Hi: i.Hi}).Verdict()
}

// RatioOfMedians compares samples of two independent runs: the ratio of the median
// of new to that of old with the percentile interval of its bootstrap. As for one
// median, the bootstrap's distribution is known and nothing is drawn: a resampled
// median is the i-th of n sorted samples with the chance that a
// Beta((n+1)/2, (n+1)/2) variate falls between (i-1)/n and i/n, and the two runs'
// are independent.
func RatioOfMedians(old, new []float64, level float64) Interval {
	if len(old) == 0 || len(new) == 0 {
		return Interval{}
	}
	r := Interval{Ratio: median(new) / median(old)}
	if min(len(old), len(new)) < leastSamples {
		return r
	}
	type point struct{ ratio, chance float64 }
	var points []point
	a, b := resampledMedian(old), resampledMedian(new)
	for _, x := range a {
		for _, y := range b {
			points = append(points, point{y.value / x.value, x.chance * y.chance})
		}
	}
	slices.SortFunc(points, func(p, q point) int { return cmp.Compare(p.ratio, q.ratio) })
	sum, tail := 0.0, (1-level)/2
	for _, p := range points {
		if sum < tail {
			r.Lo = p.ratio
		}
		if sum < 1-tail {
			r.Hi = p.ratio
		}
		sum += p.chance
	}
	// The medians of an even number lie between two samples, those of a resample on
	// one: the ratio may fall just beside an interval of few values.
	r.Lo, r.Hi = min(r.Lo, r.Ratio), max(r.Hi, r.Ratio)
	return r
}

// chanced is a value of a discrete distribution.
type chanced struct{ value, chance float64 }

// resampledMedian is the distribution of the median of a resample, without the
// values that no interval of use can reach.
func resampledMedian(x []float64) []chanced {
	const negligible = 1e-7
	s := slices.Sorted(slices.Values(x))
	half := float64(len(s)+1) / 2
	beta := distuv.Beta{Alpha: half, Beta: half}
	var out []chanced
	below := 0.0
	for i, v := range s {
		upTo := beta.CDF(float64(i+1) / float64(len(s)))
		if upTo-below > negligible {
			out = append(out, chanced{v, upTo - below})
		}
		below = upTo
	}
	return out
}

// matchedRatio compares samples of the same rounds.
func matchedRatio(old, new []float64, level float64) Interval {
	logs := make([]float64, len(old))
	for i := range old {
		logs[i] = math.Log(new[i] / old[i])
	}
	r := Interval{Ratio: math.Exp(median(logs)), Matched: true}
	if len(logs) >= leastSamples {
		lo, hi := medianInterval(logs, level)
		r.Lo, r.Hi = math.Exp(lo), math.Exp(hi)
	}
	return r
}

// RunChange is one side of a scenario in two runs.
type RunChange struct {
	Key  string `json:"key"` // of the new record
	Side string `json:"side"`
	// Old and New are the medians in seconds, Time their comparison.
	Old  float64  `json:"old_s"`
	New  float64  `json:"new_s"`
	Time Interval `json:"time"`
	// Effect is there beside side B of two: how the ratio of B to A changed. What
	// made one run's machine slower than the other's is not in it.
	Effect *Interval `json:"effect,omitempty"`
	// Counters are the deterministic ones that both have.
	Counters []CounterChange `json:"counters,omitempty"`
	// Text: both have a greedy text and it is not the same.
	Text  bool     `json:"text_differs,omitempty"`
	Notes []string `json:"notes,omitempty"` // what else is different
}

// CounterChange is a counter in two runs.
type CounterChange struct {
	Name string `json:"name"`
	Old  int64  `json:"old"`
	New  int64  `json:"new"`
}

// Percent is the change in percent of the old value; from 0 to anything it is
// infinite.
func (c CounterChange) Percent() float64 {
	if c.Old == c.New {
		return 0
	}
	return 100 * float64(c.New-c.Old) / float64(c.Old)
}

// String is the counter's name, both values and the change, or the one value.
func (c CounterChange) String() string {
	if c.Old == c.New {
		return fmt.Sprintf("%s %d", c.Name, c.New)
	}
	return fmt.Sprintf("%s %d -> %d (%+.2f %%)", c.Name, c.Old, c.New, c.Percent())
}

// Changed says whether any counter differs.
func (c *RunChange) Changed() bool {
	return slices.ContainsFunc(c.Counters, func(c CounterChange) bool { return c.Old != c.New })
}

// RunChanges are two runs side by side.
type RunChanges struct {
	Level   float64     `json:"level"`
	Changes []RunChange `json:"changes"`
	// OnlyOld and OnlyNew are the keys of scenarios that one of the runs lacks.
	OnlyOld  []string `json:"only_old,omitempty"`
	OnlyNew  []string `json:"only_new,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Doubted is how many scenarios were warned of in one of the runs: noise, drift.
	// Their times may differ between runs of the same code.
	Doubted int `json:"doubted,omitempty"`
}

// CompareRuns joins the records of two runs by their keys. A scenario whose device
// has another name in the new run is joined all the same if there is only one such,
// with a warning. A key twice in one run is an error: what to compare would be a
// guess.
func CompareRuns(old, new []Record, level float64) (*RunChanges, error) {
	olds, err := byKey("old", old)
	if err != nil {
		return nil, err
	}
	if _, err := byKey("new", new); err != nil {
		return nil, err
	}
	c := &RunChanges{Level: level}
	used := map[*Record]bool{}
	partner := make([]*Record, len(new))
	for i := range new {
		if o := olds[new[i].Key()]; o != nil {
			partner[i] = o
			used[o] = true
		}
	}
	for i := range new {
		if partner[i] == nil {
			if o := sameButDevice(old, new, &new[i], used); o != nil {
				partner[i] = o
				used[o] = true
			}
		}
	}
	var was, is []*Record
	for i := range new {
		if partner[i] != nil {
			was, is = append(was, partner[i]), append(is, &new[i])
		}
	}
	c.Warnings = differences(was, is)
	for i := range new {
		if partner[i] == nil {
			c.OnlyNew = append(c.OnlyNew, new[i].Key())
			continue
		}
		if len(partner[i].Warnings)+len(new[i].Warnings) > 0 {
			c.Doubted++
		}
		c.Changes = append(c.Changes, changesOf(partner[i], &new[i], level)...)
	}
	for i := range old {
		if !used[&old[i]] {
			c.OnlyOld = append(c.OnlyOld, old[i].Key())
		}
	}
	return c, nil
}

func byKey(run string, records []Record) (map[string]*Record, error) {
	m := make(map[string]*Record, len(records))
	for i := range records {
		key := records[i].Key()
		if m[key] != nil {
			return nil, fmt.Errorf("the %s run has two records of %s: want one of a scenario", run, key)
		}
		m[key] = &records[i]
	}
	return m, nil
}

// Scenario is the key without the device.
func (r *Record) Scenario() string {
	key := r.Key()
	if i := strings.LastIndex(key, " device="); i >= 0 {
		return key[:i]
	}
	return key
}

// sameButDevice finds the one unused old record of the scenario, if the new run has
// it once too.
func sameButDevice(old, new []Record, r *Record, used map[*Record]bool) *Record {
	scenario := r.Scenario()
	n := 0
	for i := range new {
		if new[i].Scenario() == scenario {
			n++
		}
	}
	var found *Record
	for i := range old {
		if !used[&old[i]] && old[i].Scenario() == scenario {
			if found != nil {
				return nil
			}
			found = &old[i]
		}
	}
	if n > 1 {
		return nil
	}
	return found
}

// differences names what the records that are compared do not share: it is in the
// ratios.
func differences(old, new []*Record) []string {
	var out []string
	for _, v := range []struct {
		name string
		of   func(*Record) string
	}{
		{"commit", func(r *Record) string { return r.Provenance.Commit }},
		{"host", func(r *Record) string { return r.Provenance.Host }},
		{"device", func(r *Record) string { return r.Provenance.Device }},
		{"settings", func(r *Record) string { return r.Provenance.Levers }},
		{"model", func(r *Record) string {
			if r.Model == nil {
				return ""
			}
			return strings.TrimSpace(fmt.Sprintf("%s %s %.12s", r.Model.Name, r.Model.Type, r.Model.SHA256))
		}},
	} {
		values := func(records []*Record) string {
			var all []string
			for _, r := range records {
				if s := v.of(r); s != "" && !slices.Contains(all, s) {
					all = append(all, s)
				}
			}
			slices.Sort(all)
			if len(all) == 0 {
				return "none"
			}
			return strings.Join(all, "; ")
		}
		if a, b := values(old), values(new); a != b {
			out = append(out, fmt.Sprintf("%s: old %s, new %s", v.name, a, b))
		}
	}
	return out
}

// changesOf compares the sides of one scenario.
func changesOf(old, new *Record, level float64) []RunChange {
	ratio := RatioOfMedians
	if old.Provenance == new.Provenance {
		ratio = func(a, b []float64, level float64) Interval {
			if len(a) != len(b) {
				return RatioOfMedians(a, b, level)
			}
			return matchedRatio(a, b, level)
		}
	}
	var notes []string
	if old.Model != nil && new.Model != nil && old.Model.SHA256 != new.Model.SHA256 {
		notes = append(notes, fmt.Sprintf("another model file: SHA-256 %.12s, was %.12s", new.Model.SHA256, old.Model.SHA256))
	}
	if len(old.Sides) != len(new.Sides) {
		notes = append(notes, fmt.Sprintf("sides: %d, were %d", len(new.Sides), len(old.Sides)))
	}
	var out []RunChange
	for s := range min(len(old.Sides), len(new.Sides)) {
		a, b := &old.Sides[s], &new.Sides[s]
		c := RunChange{Key: new.Key(), Side: b.Name, Old: a.Median, New: b.Median, Time: ratio(a.Seconds, b.Seconds, level), Notes: slices.Clone(notes)}
		if a.Name != b.Name {
			c.Notes = append(c.Notes, fmt.Sprintf("side %q, was %q", b.Name, a.Name))
		}
		if len(a.DeviceS) > 0 && len(b.DeviceS) > 0 {
			c.Notes = append(c.Notes, "device time: "+ratio(a.DeviceS, b.DeviceS, level).String())
		}
		c.Counters = counterChanges(a.Counters, b.Counters)
		if a.Greedy != "" && b.Greedy != "" && a.Greedy != b.Greedy {
			c.Text = true
			c.Notes = append(c.Notes, "generates another text")
		}
		if !slices.Equal(a.Pipelines, b.Pipelines) {
			c.Notes = append(c.Notes, fmt.Sprintf("dispatches %s, was %s", orNone(b.Pipelines), orNone(a.Pipelines)))
		}
		if s == 1 && old.AB != nil && new.AB != nil {
			c.Effect = effect(old, new, level)
		}
		out = append(out, c)
	}
	return out
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// effect compares the ratios of two sides in two runs, each round a sample.
func effect(old, new *Record, level float64) *Interval {
	of := func(r *Record) []float64 {
		x := make([]float64, len(r.Sides[0].Seconds))
		for i := range x {
			x[i] = r.Sides[1].Seconds[i] / r.Sides[0].Seconds[i]
		}
		return x
	}
	a, b := of(old), of(new)
	var i Interval
	if old.Provenance == new.Provenance && len(a) == len(b) {
		i = matchedRatio(a, b, level)
	} else {
		i = RatioOfMedians(a, b, level)
	}
	return &i
}

func counterChanges(a, b *Counters) []CounterChange {
	if a == nil || b == nil {
		return nil
	}
	var out []CounterChange
	was := a.List()
	for i, c := range b.List() {
		out = append(out, CounterChange{c.Name, was[i].N, c.N})
	}
	return out
}

// List gives the counters by name in a fixed order.
func (c *Counters) List() []Count {
	return []Count{
		{"instructions", c.Instructions}, {"bytes read", c.BytesRead}, {"bytes written", c.BytesWritten},
		{"barriers", c.Barriers}, {"divergent branches", c.Divergent}, {"dispatches", c.Dispatches},
	}
}

// Gate holds the deterministic part of the new run against the old one: no counter
// may grow by more than percent, no text may change, and nothing that was measured
// may be gone. It gives one line for each that does not hold, and how many counters
// were compared: a gate that compares none has not held.
func (c *RunChanges) Gate(percent float64) (faults []string, compared int) {
	for i := range c.Changes {
		ch := &c.Changes[i]
		for _, n := range ch.Counters {
			compared++
			if n.Percent() > percent {
				faults = append(faults, fmt.Sprintf("%s, %s: %s: want at most %+g %%", ch.Key, ch.Side, n, percent))
			}
		}
		if ch.Text {
			faults = append(faults, fmt.Sprintf("%s, %s: generates another text", ch.Key, ch.Side))
		}
	}
	for _, key := range c.OnlyOld {
		faults = append(faults, key+": not in the new run")
	}
	return faults, compared
}

// Table is the comparison as people read it. Counters are there where they changed.
func (c *RunChanges) Table() Table {
	t := Table{Columns: []Column{{Name: "scenario"}, {Name: "side"}, {Name: "old", Numeric: true}, {Name: "new", Numeric: true}, {Name: "time new/old", Numeric: true}}}
	effects := slices.ContainsFunc(c.Changes, func(c RunChange) bool { return c.Effect != nil })
	if effects {
		t.Columns = append(t.Columns, Column{Name: "B/A new/old", Numeric: true})
	}
	counted := slices.ContainsFunc(c.Changes, func(c RunChange) bool { return len(c.Counters) > 0 })
	if counted {
		t.Columns = append(t.Columns, Column{Name: "counters"})
	}
	noted := slices.ContainsFunc(c.Changes, func(c RunChange) bool { return len(c.Notes) > 0 })
	if noted {
		t.Columns = append(t.Columns, Column{Name: "notes"})
	}
	for i := range c.Changes {
		ch := &c.Changes[i]
		row := []string{ch.Key, ch.Side, seconds(ch.Old), seconds(ch.New), ch.Time.String()}
		if effects {
			cell := ""
			if ch.Effect != nil {
				cell = ch.Effect.String()
			}
			row = append(row, cell)
		}
		if counted {
			row = append(row, ch.countersText())
		}
		if noted {
			row = append(row, strings.Join(ch.Notes, "; "))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Write prints a table as "md" or "csv".
func (t Table) Write(w io.Writer, format string) error {
	b := bufio.NewWriter(w)
	switch format {
	case "md":
		writeMarkdown(b, t)
	case "csv":
		if err := writeCSV(b, t); err != nil {
			return err
		}
	default:
		return fmt.Errorf("unknown format %q: want md or csv", format)
	}
	return b.Flush()
}

func (c *RunChange) countersText() string {
	if len(c.Counters) == 0 {
		return ""
	}
	var changed []string
	for _, n := range c.Counters {
		if n.Old != n.New {
			changed = append(changed, n.String())
		}
	}
	if changed == nil {
		return "equal"
	}
	return strings.Join(changed, ", ")
}
