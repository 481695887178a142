package sweeps

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"minfer/engine/lever"
	"minfer/harness"
	"minfer/metal"
	"minfer/metal/mtl"
	"minfer/suites/metalcase"
)

// subject is one side, ready to be timed.
type subject interface {
	// prepare puts everything where the first run expects it, outside of the clock.
	prepare(ctx context.Context) error
	// run executes n times in a row and says how long that took.
	run(ctx context.Context, n int) (time.Duration, error)
	// output is what the last execution gave, with its comparison.
	output() (output, error)
	work() harness.Work
	// weightSet is the bytes of the weights that executions in a row take in turn, 0
	// where they take the same.
	weightSet() int64
	close()
}

// output is a side's result.
type output struct {
	// check is the comparison with the reference, nil where there is none, and then
	// missing says why.
	check   *harness.Comparison
	missing string
	// values are held against the other side's; tolerance is how far they may be from
	// the reference, so that two sides may differ by the sum of theirs.
	values    []float32
	tolerance float64
	differs   string // what a lever that chooses no kernels changed, "" for nothing to say
}

// Runner measures scenarios.
type Runner struct {
	o       Options
	limits  map[*Env][]harness.Limit
	reads   map[int]harness.Limit // of the CPU, by bytes
	adds    []harness.Limit       // of the CPU: floats, bytes
	texts   map[textKey]text
	sources map[sourceKey]*loaded

	last    string // identity of the problem below
	problem *metalcase.Problem
}

// NewRunner makes a runner. Close it.
func NewRunner(o Options) *Runner {
	if o.Budget == 0 {
		o.Budget = DefaultBudget
	}
	if o.Round == 0 {
		o.Round = DefaultRound
	}
	if o.WeightBytes == 0 {
		o.WeightBytes = DefaultWeightBytes
	}
	if o.GPU.Read == 0 {
		o.GPU = GPUs[0]
	}
	return &Runner{o: o, limits: map[*Env][]harness.Limit{}, reads: map[int]harness.Limit{}, texts: map[textKey]text{}, sources: map[sourceKey]*loaded{}}
}

// Close gives up the models that were opened.
func (r *Runner) Close() {
	for _, l := range r.sources {
		l.close()
	}
	clear(r.sources)
}

// recorder notes which entries of the dispatch table a side launches, while it is
// on, and how long the device says that its work took.
type recorder struct {
	on      bool
	entries []*metal.Entry
	spent   time.Duration
}

func (c *recorder) timed(t mtl.Timing) { c.spent += t.GPU }

func (c *recorder) launched(e *metal.Entry) {
	if c.on && !slices.Contains(c.entries, e) {
		c.entries = append(c.entries, e)
	}
}

// matrices says whether an entry multiplies simdgroup matrices.
func matrices(e *metal.Entry) bool {
	for _, family := range []string{"gemm", "prefill_flash", "parallel_scores", "parallel_output"} {
		if strings.HasPrefix(e.Variant, family) {
			return true
		}
	}
	return false
}

// names lists the entries, sorted.
func (c *recorder) names() []string {
	var ids []string
	for _, e := range c.entries {
		ids = append(ids, e.ID())
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Run measures a scenario. A refusal by the device wraps ErrUnsupported. An
// interrupted run gives no record and the context's error.
func (r *Runner) Run(ctx context.Context, s Scenario) (*harness.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.leftOut != "" {
		return nil, fmt.Errorf("%s: %w: %s", s.ID(), ErrUnsupported, s.leftOut)
	}
	rec := &harness.Record{Provenance: s.env.Provenance, Sweep: s.Sweep, Op: s.Op, Params: s.Params, Lever: s.Lever, Differs: s.Differs}
	rec.Provenance.Device = s.env.Device.Describe()
	if s.env.Tally != nil {
		rec.GPU = &r.o.GPU
	}
	if s.model != nil {
		l, err := r.load(s.model)
		if err != nil {
			return nil, err
		}
		rec.Model = &harness.ModelRef{Name: s.model.model.Name, Type: l.types, SHA256: l.hash}
	}
	var sides []subject
	defer func() {
		for _, side := range sides {
			side.close()
		}
	}()
	var outputs []output
	var all []*recorder
	for i, setting := range s.Sides {
		notes := &recorder{}
		all = append(all, notes)
		side, err := s.open(ctx, r, i, notes)
		if err != nil {
			return nil, s.failure(setting, err)
		}
		sides = append(sides, side)
		m := harness.Measured{Name: setting.Name, Levers: changed(setting.Levers)}
		out, err := r.observe(ctx, s, side, notes, &m)
		if err != nil {
			return nil, s.failure(setting, err)
		}
		rec.Sides, outputs = append(rec.Sides, m), append(outputs, out)
	}
	if err := s.distinct(rec); err != nil {
		return nil, err
	}
	if err := s.compare(rec, outputs); err != nil {
		return nil, err
	}
	if err := r.measure(ctx, rec, sides, all); err != nil {
		return nil, err
	}
	if err := r.greedy(ctx, s, rec); err != nil {
		return nil, fmt.Errorf("%s: greedy text: %w", s.ID(), err)
	}
	if err := r.limit(ctx, s, rec); err != nil {
		return nil, fmt.Errorf("%s: limits: %w", s.env.Device.Name, err)
	}
	return rec, nil
}

// failure says of which scenario and side an error is.
func (s *Scenario) failure(side Setting, err error) error {
	if len(s.Sides) > 1 {
		return fmt.Errorf("%s: %s: %w", s.ID(), side.Name, err)
	}
	return fmt.Errorf("%s: %w", s.ID(), err)
}

// observe runs a side once with everything recorded that does not depend on time.
func (r *Runner) observe(ctx context.Context, s Scenario, side subject, notes *recorder, m *harness.Measured) (output, error) {
	if err := side.prepare(ctx); err != nil {
		return output{}, err
	}
	tally := s.env.Tally
	if tally != nil {
		tally.take()
	}
	notes.on = true
	_, err := side.run(ctx, 1)
	notes.on = false
	if err != nil {
		return output{}, err
	}
	m.Pipelines = notes.names()
	m.Matrices = slices.ContainsFunc(notes.entries, matrices)
	if tally != nil {
		if sum := tally.take(); sum.Dispatches > 0 {
			m.Counters = &sum
			m.GPUSeconds = float64(sum.BytesRead+sum.BytesWritten) / r.o.GPU.Read
		}
	}
	m.Work, m.WeightSet = side.work(), side.weightSet()
	out, err := side.output()
	m.Check = out.check
	return out, err
}

// distinct is an error where a lever that chooses kernels chose the same for both
// sides: then it was not live, and a ratio would say nothing of it.
func (s *Scenario) distinct(rec *harness.Record) error {
	if s.Lever == "MINFER_ATTN_CHUNKS" {
		if a, b := rec.Sides[0].Counters, rec.Sides[1].Counters; a != nil && b != nil && *a == *b {
			return fmt.Errorf("%s: both sides counted the same: want another number of KV chunks, or %s is not live here", s.ID(), s.Lever)
		}
	}
	if !s.Kernels || len(rec.Sides) < 2 || !slices.Equal(rec.Sides[0].Pipelines, rec.Sides[1].Pipelines) {
		return nil
	}
	return fmt.Errorf("%s: both sides dispatched %s: want different kernels, or %s is not live here",
		s.ID(), strings.Join(rec.Sides[0].Pipelines, ", "), s.Lever)
}

// compare holds the second side's output against the first's, where the lever must
// not move it, and says what does not hold.
func (s *Scenario) compare(rec *harness.Record, outputs []output) error {
	for i, o := range outputs {
		switch c := rec.Sides[i].Check; {
		case c == nil && o.missing != "" && i == 0:
			rec.Warnings = append(rec.Warnings, o.missing)
		case c != nil && !c.OK():
			rec.Warnings = append(rec.Warnings, fmt.Sprintf("the output of %s does not hold: %s", rec.Sides[i].Name, c))
		}
	}
	if len(outputs) < 2 {
		return nil
	}
	if s.Lever == "MINFER_WEIGHT_COPY" {
		a, b := outputs[0].differs, outputs[1].differs
		if a == b {
			return fmt.Errorf("%s: both sides have %s: want weights in place and copies", s.ID(), a)
		}
		rec.Differs = fmt.Sprintf("%s: A %s, B %s", rec.Differs, a, b)
	}
	if s.apart || outputs[0].values == nil {
		return nil
	}
	want := make([]float64, len(outputs[0].values))
	for i, v := range outputs[0].values {
		want[i] = float64(v)
	}
	var err error
	if rec.Check, err = harness.Within(outputs[1].values, want, outputs[0].tolerance+outputs[1].tolerance); err != nil {
		return fmt.Errorf("%s: %w", s.ID(), err)
	}
	if !rec.Check.OK() {
		rec.Warnings = append(rec.Warnings, "the sides' outputs differ: "+rec.Check.String())
	}
	return nil
}

// measure times the sides: two of them interleaved.
func (r *Runner) measure(ctx context.Context, rec *harness.Record, sides []subject, notes []*recorder) error {
	// As many executions a round as the faster side needs to fill it, while the
	// slower one does not take many times as long.
	least, most := 1<<30, 1
	for _, side := range sides {
		n, err := harness.Calibrate(ctx, r.o.Round, side.run)
		if err != nil {
			return err
		}
		least, most = min(least, n), max(most, n)
	}
	inner := min(most, 4*least)
	device := make([][]float64, len(sides)) // by the device's own timers, rounds of the warm-up too
	timed := func(i int) harness.ABSide {
		return func(ctx context.Context) (time.Duration, error) {
			notes[i].spent = 0
			d, err := sides[i].run(ctx, inner)
			device[i] = append(device[i], notes[i].spent.Seconds()/float64(inner))
			return d, err
		}
	}
	o := harness.ABOptions{Budget: r.o.Budget, Seed: r.o.Seed}
	if r.o.Reps > 0 {
		o.MinRounds, o.MaxRounds, o.Budget = r.o.Reps, r.o.Reps, 0
	}
	samples := make([][]float64, len(sides))
	if len(sides) == 2 {
		ab, err := harness.MeasureAB(ctx, timed(0), timed(1), o)
		if err != nil {
			return err
		}
		for _, round := range ab.Rounds {
			samples[0], samples[1] = append(samples[0], round[0]/float64(inner)), append(samples[1], round[1]/float64(inner))
		}
		ab.MedianA, ab.MedianB = ab.MedianA/float64(inner), ab.MedianB/float64(inner)
		rec.AB = ab
		rec.Warnings = append(rec.Warnings, ab.Warnings...)
	} else {
		alone, err := harness.MeasureOne(ctx, timed(0), o)
		if err != nil {
			return err
		}
		for _, s := range alone.Samples {
			samples[0] = append(samples[0], s/float64(inner))
		}
		rec.Warnings = append(rec.Warnings, alone.Warnings...)
	}
	for i := range rec.Sides {
		m := &rec.Sides[i]
		m.Inner, m.Seconds, m.Median = inner, samples[i], harness.MedianOf(samples[i])
		if own := device[i][len(device[i])-len(samples[i]):]; slices.Max(own) > 0 {
			m.DeviceS = own
		}
	}
	return nil
}

// Holds says whether all comparisons of a record hold.
func Holds(rec *harness.Record) bool {
	if rec.Check != nil && !rec.Check.OK() {
		return false
	}
	return !slices.ContainsFunc(rec.Sides, func(m harness.Measured) bool { return m.Check != nil && !m.Check.OK() })
}

// changed lists the levers that are not at their default, as they are typed.
func changed(l lever.Levers) string {
	var words []string
	for _, v := range lever.All {
		if value := v.Get(l); v.Kind != lever.KindObservation && value != v.Get(lever.Default()) {
			words = append(words, v.Name+"="+value)
		}
	}
	return strings.Join(words, " ")
}
