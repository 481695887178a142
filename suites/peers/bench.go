package peers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/model"
	"minfer/harness"
	"minfer/suites/limits"
)

// bench is a file under test.
type bench struct {
	o      Options
	f      *gguf.File
	m      *model.Model
	nCtx   int
	tokens []int32 // that the tests evaluate
}

// openBench opens the file of o, with room for its tests and for least tokens.
func openBench(o Options, least int) (*bench, error) {
	f, err := gguf.Open(o.Path)
	if err != nil {
		return nil, err
	}
	b := &bench{o: o, f: f, nCtx: least}
	if err := b.load(); err != nil {
		f.Close()
		return nil, err
	}
	return b, nil
}

func (b *bench) load() (err error) {
	if b.m, err = model.Load(b.f); err != nil {
		return err
	}
	for _, n := range b.o.Prompts {
		b.nCtx = max(b.nCtx, n)
	}
	for _, n := range b.o.Depths {
		b.nCtx = max(b.nCtx, n+b.o.Generate)
	}
	if b.nCtx > b.m.NCtxTrain {
		return fmt.Errorf("%s: prefills of %v tokens and decodes of %d at depths %v: want them within the model's context of %d", b.o.Path, b.o.Prompts, b.o.Generate, b.o.Depths, b.m.NCtxTrain)
	}
	b.nCtx++
	b.tokens = make([]int32, b.nCtx)
	for i := range b.tokens {
		b.tokens[i] = int32((i*7919 + 13) % (b.m.NVocab - 1))
	}
	return nil
}

// record is one without rows.
func (b *bench) record() *Record {
	return &Record{Model: b.o.Path, KV: b.o.KVType.String(), Weights: weightBytes(b.m), Adds: multiplyAdds(b.m)}
}

// Ours is the side that is this engine.
const Ours = "minfer"

// contender runs tokens through one engine.
type contender struct {
	name string
	pos  func() int
	back func(pos int) error                     // to an earlier position
	eval func(tokens []int32) ([]float32, error) // the logits after the last
}

// fillBatch is how many tokens fill a cache between looks at the context.
const fillBatch = 512

// seek goes to a position: back to it, or on with any tokens.
func (c *contender) seek(ctx context.Context, pos int) error {
	if pos <= c.pos() {
		return c.back(pos)
	}
	for c.pos() < pos {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := c.eval(make([]int32, min(pos-c.pos(), fillBatch))); err != nil {
			return err
		}
	}
	return nil
}

// test is what all sides do.
type test struct {
	name   string
	tokens int
	depth  int
	decode bool
	// work is the test with n tokens in place of its own, from its depth on; the logits
	// are those of the last.
	work func(ctx context.Context, c contender, n int) ([]float32, error)

	warm     []int            // tokens of passes before the rounds
	drop     bool             // settings of llama.cpp that are slow end after a few rounds
	read     *limits.ReadLoop // the limit, which takes part in the rounds
	readRate float64          // where it does not, bytes a second; 0: reading is not the limit
	adds     int64            // of the weights; 0: multiply-adds are not the limit
	addRate  float64
}

// tests are those of the options: decodes first, from the lowest depth on, so that each
// goes on from the cache of the one before.
func (b *bench) tests() (list []test) {
	for _, depth := range slices.Sorted(slices.Values(b.o.Depths)) {
		list = append(list, test{name: fmt.Sprintf("decode %d at depth %d", b.o.Generate, depth), tokens: b.o.Generate, depth: depth, decode: true,
			work: func(ctx context.Context, c contender, n int) (logits []float32, err error) {
				for i := range n {
					if err := ctx.Err(); err != nil {
						return nil, err
					}
					if logits, err = c.eval(b.tokens[depth+i:][:1]); err != nil {
						return nil, err
					}
				}
				return logits, nil
			}})
	}
	for _, tokens := range slices.Sorted(slices.Values(b.o.Prompts)) {
		list = append(list, test{name: fmt.Sprintf("prefill %d", tokens), tokens: tokens,
			work: func(_ context.Context, c contender, n int) ([]float32, error) { return c.eval(b.tokens[:n]) }})
	}
	return list
}

// all measures every test, which prepare completes, and hands after, unless it is nil,
// the logits that each side's last round ended with.
func (b *bench) all(ctx context.Context, rec *Record, sides []contender, prepare func(*test), after func(t test, ends [][]float32) error) error {
	for _, c := range sides {
		if err := c.back(0); err != nil { // for a cache's content to be the tests' alone
			return err
		}
	}
	for _, t := range b.tests() {
		settle() // preparing may measure
		prepare(&t)
		ends, err := rec.measure(ctx, b.o, t, sides)
		if ends != nil && after != nil {
			if err := after(t, ends); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	// tries is how many rounds every setting of llama.cpp takes part in. One that is
	// slow in one of them by chance is not taken for slow.
	tries = 2
	// slow is how much longer its shortest round must take then than the longest one of
	// the best setting for it to take no part in the others of that test.
	slow = 1.3
)

// settle waits until nothing of what ran before takes a core any more: threads without
// work look for some for milliseconds before they sleep (see the pool in package cpu), and
// whoever follows at once would pay for that.
func settle() { time.Sleep(settleTime) }

// settleTime is about twice what this engine's threads take to fall asleep.
const settleTime = 20 * time.Millisecond

// measure interleaves the sides of one test, after passes that do not count. A
// side's cache is filled to the depth outside of the clock, which starts with all threads
// at rest. Settings of llama.cpp that have been dropped keep the samples that they have.
// An interrupt keeps whole rounds. The logits are those that each side's last round ended
// with, nil where there is none.
func (rec *Record) measure(ctx context.Context, o Options, t test, sides []contender) (ends [][]float32, err error) {
	ends = make([][]float32, len(sides))
	var measured []harness.Side
	var part []int // the sides that take part
	for i, c := range sides {
		for _, n := range t.warm {
			if err := c.seek(ctx, t.depth); err != nil {
				return nil, err
			}
			if _, err := t.work(ctx, c, n); err != nil {
				return nil, err
			}
		}
		part = append(part, i)
		measured = append(measured, harness.Side{Name: c.name,
			Setup: func(ctx context.Context) error {
				err := c.seek(ctx, t.depth)
				settle()
				return err
			},
			Round: func(ctx context.Context) error {
				logits, err := t.work(ctx, c, t.tokens)
				if err == nil {
					ends[i] = logits
				}
				return err
			}})
	}
	if t.read != nil {
		t.read.Round(1)
		t.read.Forget()
	}
	samples := make([][]time.Duration, len(sides))
	var spent time.Duration
	for n := 1; n <= o.Rounds && (o.Time == 0 || n <= fewest || spent < o.Time); n++ {
		var round []harness.Side
		for _, i := range part {
			round = append(round, measured[i])
		}
		if t.read != nil {
			round = append(round, harness.Side{Name: "read loop",
				Setup: func(context.Context) error { settle(); return nil },
				Round: func(context.Context) error { t.read.Round(t.tokens); return nil }})
		}
		var times [][]time.Duration
		if times, err = harness.Interleave(ctx, 0, 1, o.Seed+uint64(n), round); err != nil {
			if ctx.Err() == nil || n == 1 {
				return nil, err
			}
			break // of the rounds before there are samples of all sides
		}
		for k, i := range part {
			samples[i] = append(samples[i], times[k][0])
		}
		for k := range part { // not of the loops that read, of which there are several
			spent += times[k][0]
		}
		if n == tries && t.drop {
			part = fast(samples)
		}
	}
	rec.add(t, sides, samples)
	return ends, err
}

// fast leaves out the settings of llama.cpp that cannot well be its best.
func fast(samples [][]time.Duration) (part []int) {
	best := slices.Max(samples[1])
	for _, s := range samples[1:] {
		best = min(best, slices.Max(s))
	}
	for i, s := range samples {
		if i == 0 || slices.Min(s).Seconds() <= slow*best.Seconds() {
			part = append(part, i)
		}
	}
	return part
}

// add makes the rows of a test.
func (rec *Record) add(t test, sides []contender, samples [][]time.Duration) {
	start := len(rec.Rows)
	best := 0.0
	for i, c := range sides {
		s := samples[i]
		row := Row{Test: t.name, Side: c.name, Tokens: t.tokens, Samples: s, Rate: rateOf(t.tokens, s), Spread: harness.Spread(s), ReadRate: t.readRate}
		if t.read != nil {
			row.ReadRate = t.read.Rate()
		}
		if row.ReadRate > 0 {
			row.OfLimit = row.Rate * float64(rec.Weights) / row.ReadRate
		}
		if t.adds > 0 {
			row.AddRate = t.addRate
			row.OfAdds = float64(t.adds) / harness.Median(s).Seconds() / row.AddRate
		}
		if i > 0 {
			best = max(best, row.Rate)
		}
		rec.Rows = append(rec.Rows, row)
	}
	for i := range rec.Rows[start:] {
		rec.Rows[start+i].VsLlama = rec.Rows[start+i].Rate / best
	}
}

// largest is the file's largest part, as decode reads it.
func largest(f *gguf.File) []byte {
	var data []byte
	for _, p := range f.Parts {
		if len(p.Data) > len(data) {
			data = p.Data
		}
	}
	return data
}

// weightBytes is what one token reads: every weight, the embedding table only
// where it is the output matrix too.
func weightBytes(m *model.Model) int64 {
	var n int64
	for _, w := range m.Weights() {
		if w.Name != "token_embd.weight" || m.Tied {
			n += int64(len(w.Data))
		}
	}
	return n
}

// multiplyAdds is what one token takes, of the matrices that it reads.
func multiplyAdds(m *model.Model) int64 {
	var n int64
	for _, w := range m.Weights() {
		if w.Shape[1] > 1 && (w.Name != "token_embd.weight" || m.Tied) {
			n += int64(w.Shape.Elements())
		}
	}
	return n
}

// quantised says whether the matrices are multiplied as bytes.
func quantised(m *model.Model) bool {
	return slices.ContainsFunc(m.Weights(), func(w *graph.Weight) bool { return w.Type.BlockSize() > 1 })
}
