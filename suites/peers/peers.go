// Package peers measures llama.cpp beside this engine: the same file, the same
// threads, prefill and decode interleaved in one run, with the rate of a plain
// read loop over the same mapped weights as the limit of decode. A rate counts only
// with its check: the logits of both are compared first, bit for bit, with a
// llama.cpp whose instruction set has the bits of the level that is measured
// ([Compare]).
package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"minfer/cpu"
	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/model"
	"minfer/engine/session"
	"minfer/harness"
	"minfer/refs/llamacpp"
	"minfer/suites/limits"
)

// Options of a comparison.
type Options struct {
	Path     string // the model file
	Backend  func(threads int) (graph.Backend, error)
	Threads  []int // a record for each
	KVType   gguf.Type
	Prompts  []int         // tokens of a prefill round, a test each
	Depths   []int         // cells in the cache before a decode round, a test each
	Generate int           // tokens of a decode round
	Rounds   int           // of a test, at the most
	Time     time.Duration // of a test: no round starts later, unless there were too few; 0 for no limit
	Seed     uint64

	// Compare is asked once for the check of Path; nil is [Compare] with the library
	// of the run, which must then have the backend's level.
	Compare func(ctx context.Context) (*harness.Comparison, string, error)
}

// Check says what is wrong with the numbers.
func (o *Options) Check() error {
	least := func(name string, list []int, lo int) error {
		for _, n := range list {
			if n < lo {
				return fmt.Errorf("%s %d: want at least %d", name, n, lo)
			}
		}
		return nil
	}
	return errors.Join(least("threads", o.Threads, 1), least("a prefill of", o.Prompts, 1), least("a depth of", o.Depths, 0),
		least("a decode of", []int{o.Generate}, 1), least("rounds", []int{o.Rounds}, 1))
}

// fewest rounds are enough for a median.
const fewest = 3

// Ours is the side that is this engine.
const Ours = "minfer"

// contender runs tokens through one engine.
type contender struct {
	name string
	pos  func() int
	back func(pos int) error // to an earlier position
	eval func(tokens []int32) error
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
		if err := c.eval(make([]int32, min(pos-c.pos(), fillBatch))); err != nil {
			return err
		}
	}
	return nil
}

// setting is a way to run llama.cpp.
type setting struct {
	name          string
	repack, flash bool
}

// settings: as it comes, with its fused attention, and on the path whose bits this
// engine reproduces.
var settings = []setting{{"llama.cpp", true, false}, {"llama.cpp, flash attention", true, true}, {"llama.cpp, no repacking", false, false}}

// Run measures one file and hands each thread count's record to done as soon as it
// is whole. llama.cpp takes part in all its [settings]; the best one of each test is
// what is compared with. An interrupted run gives the record of the tests that every
// side has a sample of, and then the context's error.
func Run(ctx context.Context, lib *llamacpp.Lib, o Options, done func(*Record) error) error {
	if err := o.Check(); err != nil {
		return err
	}
	f, err := gguf.Open(o.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := model.Load(f)
	if err != nil {
		return err
	}
	nCtx := 0
	for _, n := range o.Prompts {
		nCtx = max(nCtx, n)
	}
	for _, n := range o.Depths {
		nCtx = max(nCtx, n+o.Generate)
	}
	if nCtx > m.NCtxTrain {
		return fmt.Errorf("%s: prefills of %v tokens and decodes of %d at depths %v: want them within the model's context of %d", o.Path, o.Prompts, o.Generate, o.Depths, m.NCtxTrain)
	}
	plain, err := lib.LoadModel(o.Path, llamacpp.ModelOptions{})
	if err != nil {
		return err
	}
	defer plain.Close()
	repacked, err := lib.LoadModel(o.Path, llamacpp.ModelOptions{Repack: true})
	if err != nil {
		return err
	}
	defer repacked.Close()
	var check *harness.Comparison
	var with string
	if o.Compare != nil {
		check, with, err = o.Compare(ctx)
	} else {
		check, with, err = compare(lib, plain, o, m)
	}
	if err != nil {
		return err
	}
	for _, threads := range o.Threads {
		backend, err := o.Backend(threads)
		if err != nil {
			return err
		}
		rec := &Record{Model: o.Path, Threads: threads, KV: o.KVType.String(), Weights: weightBytes(m), Adds: multiplyAdds(m), Check: check, With: with, Agree: check.OK()}
		err = rec.all(ctx, o, m, largest(f), backend, nCtx+1, plain, repacked)
		if c, ok := backend.(io.Closer); ok {
			c.Close()
		}
		if err != nil && (ctx.Err() == nil || len(rec.Rows) == 0) {
			return err
		}
		if err := errors.Join(done(rec), err); err != nil {
			return err
		}
	}
	return nil
}

// all measures every test with one number of threads: decodes first, from the lowest
// depth on, so that each goes on from the cache of the one before.
func (rec *Record) all(ctx context.Context, o Options, m *model.Model, mapped []byte, backend graph.Backend, nCtx int, plain, repacked *llamacpp.Model) error {
	ours, err := session.New(m, session.Options{Backends: []graph.Backend{backend}, NCtx: nCtx, KVType: o.KVType})
	if err != nil {
		return err
	}
	defer ours.Close()
	sides := []contender{{Ours, ours.Pos, ours.Truncate, func(tokens []int32) error {
		_, err := ours.Eval(tokens)
		return err
	}}}
	for _, s := range settings {
		lm := plain
		if s.repack {
			lm = repacked
		}
		c, err := lm.NewContext(llamacpp.ContextOptions{NCtx: nCtx, KVType: o.KVType, Threads: rec.Threads, UBatch: min(512, nCtx), FlashAttn: s.flash})
		if err != nil {
			return err
		}
		defer c.Close()
		sides = append(sides, contender{s.name, c.Pos, c.Truncate, func(tokens []int32) error {
			_, err := c.EvalLast(tokens)
			return err
		}})
	}
	tokens := make([]int32, nCtx)
	for i := range tokens {
		tokens[i] = int32((i*7919 + 13) % (m.NVocab - 1))
	}
	warm := func(sides []contender) error {
		for _, c := range sides {
			if err := errors.Join(c.seek(ctx, 0), c.eval(tokens[:1])); err != nil {
				return err
			}
		}
		return nil
	}
	if err := warm(sides); err != nil {
		return err
	}
	left := sides
	read := limits.NewReadLoopOf(rec.Threads, mapped)
	for _, depth := range slices.Sorted(slices.Values(o.Depths)) {
		t := test{name: fmt.Sprintf("decode %d at depth %d", o.Generate, depth), tokens: o.Generate, depth: depth, read: read}
		left, err = rec.measure(ctx, o, t, left, func(c contender) error {
			for i := range o.Generate {
				if err := errors.Join(ctx.Err(), c.eval(tokens[depth+i:][:1])); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(o.Prompts) == 0 {
		return nil
	}
	peak := limits.MultiplyAdds
	if quantised(m) {
		peak = limits.ByteMultiplyAdds
	}
	output := int64(m.NEmbd) * int64(m.NVocab) // for the last token only
	for _, n := range slices.Sorted(slices.Values(o.Prompts)) {
		t := test{name: fmt.Sprintf("prefill %d", n), tokens: n, adds: int64(n)*(rec.Adds-output) + output, addRate: peak(rec.Threads, peakTime)}
		if _, err = rec.measure(ctx, o, t, sides, func(c contender) error { return c.eval(tokens[:n]) }); err != nil {
			return err
		}
	}
	return nil
}

// peakTime is what a loop of multiply-adds takes at the least.
const peakTime = 10 * time.Millisecond

// test is what all sides do.
type test struct {
	name    string
	tokens  int
	depth   int
	read    *limits.ReadLoop // nil: reading is not the limit
	adds    int64            // of the weights; 0: multiply-adds are not the limit
	addRate float64
	warm    bool // go through it once more before, and keep every side in all rounds
}

// slow is how much slower than its best a setting of llama.cpp may be in a test's
// first round to take part in the others.
const slow = 1.3

// measure interleaves the sides of one test, after a round that does not count. A
// side's cache is filled to the depth outside of the clock. Settings of llama.cpp
// that were slow in that round end with it, and keep it as their only sample: the
// others are given.
func (rec *Record) measure(ctx context.Context, o Options, t test, sides []contender, work func(contender) error) ([]contender, error) {
	var measured []harness.Side
	for _, c := range sides {
		measured = append(measured, harness.Side{Name: c.name,
			Setup: func(ctx context.Context) error { return c.seek(ctx, t.depth) },
			Round: func(context.Context) error { return work(c) }})
	}
	round := func(n int) ([][]time.Duration, error) {
		return harness.Interleave(ctx, 0, 1, o.Seed+uint64(n), measured)
	}
	if t.warm {
		for i, c := range sides {
			if err := measured[i].Setup(ctx); err != nil {
				return nil, err
			}
			if err := work(c); err != nil {
				return nil, err
			}
		}
	}
	first, err := round(0)
	if err != nil {
		return nil, err
	}
	least := first[len(first)-1][0]
	for i := 1; i < len(first); i++ {
		least = min(least, first[i][0])
	}
	samples := map[string][]time.Duration{}
	var left []contender
	kept := measured[:0]
	for i, c := range sides {
		if i > 0 && !t.warm && first[i][0].Seconds() > slow*least.Seconds() {
			samples[c.name] = first[i]
			continue
		}
		left, kept = append(left, c), append(kept, measured[i])
	}
	measured = kept
	if t.read != nil {
		t.read.Round()
		t.read.Forget()
		measured = append(measured, harness.Side{Name: "read loop", Round: func(context.Context) error { t.read.Round(); return nil }})
	}
	var spent time.Duration
	for n := 1; n <= o.Rounds && (o.Time == 0 || n <= fewest || spent < o.Time); n++ {
		var times [][]time.Duration
		if times, err = round(n); err != nil {
			if ctx.Err() == nil || n == 1 {
				return nil, err
			}
			break // of the rounds before there are samples of all sides
		}
		for i, side := range measured {
			samples[side.Name] = append(samples[side.Name], times[i][0])
			spent += times[i][0]
		}
	}
	best := 0.0
	start := len(rec.Rows)
	for i, c := range sides {
		s := samples[c.name]
		row := Row{Test: t.name, Side: c.name, Tokens: t.tokens, Samples: s, Rate: rateOf(t.tokens, s), Spread: harness.Spread(s)}
		if t.read != nil {
			row.ReadRate = t.read.Rate()
			row.OfLimit = row.Rate * float64(rec.Weights) / row.ReadRate
		}
		if t.adds > 0 {
			row.AddRate = t.addRate
			row.OfAdds = float64(t.adds) / harness.Median(s).Seconds() / row.AddRate
		}
		if i > 0 {
			best = math.Max(best, row.Rate)
		}
		rec.Rows = append(rec.Rows, row)
	}
	for i := range rec.Rows[start:] {
		rec.Rows[start+i].VsLlama = rec.Rows[start+i].Rate / best
	}
	return left, err
}

// checkTokens is how many tokens the check evaluates.
const checkTokens = 16

// Compare evaluates the same tokens one by one with both engines, llama.cpp on the
// path that has our order of operations, and compares all logits bit for bit. The
// library must have the level whose bits the backend gives: another rounds elsewhere.
// The name is that of the library's side. Of the options it takes Path, Backend,
// Threads and KVType.
func Compare(lib *llamacpp.Lib, o Options) (*harness.Comparison, string, error) {
	f, err := gguf.Open(o.Path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	m, err := model.Load(f)
	if err != nil {
		return nil, "", err
	}
	lm, err := lib.LoadModel(o.Path, llamacpp.ModelOptions{})
	if err != nil {
		return nil, "", err
	}
	defer lm.Close()
	return compare(lib, lm, o, m)
}

func compare(lib *llamacpp.Lib, lm *llamacpp.Model, o Options, m *model.Model) (*harness.Comparison, string, error) {
	backend, err := o.Backend(o.Threads[0])
	if err != nil {
		return nil, "", err
	}
	if c, ok := backend.(io.Closer); ok {
		defer c.Close()
	}
	if have, want := lib.Level(), LevelOf(backend); have != want {
		return nil, "", fmt.Errorf("the check of level %s: variant %s of llama.cpp has level %q: want a variant of the same level", want, lib.Variant(), have)
	}
	tokens := make([]int32, checkTokens)
	for i := range tokens {
		tokens[i] = int32((i*104729 + 7) % (m.NVocab - 1))
	}
	s, err := session.New(m, session.Options{Backends: []graph.Backend{backend}, NCtx: len(tokens), KVType: o.KVType})
	if err != nil {
		return nil, "", err
	}
	defer s.Close()
	rows, err := s.EvalAll(tokens)
	if err != nil {
		return nil, "", err
	}
	c, err := lm.NewContext(llamacpp.ContextOptions{NCtx: len(tokens), KVType: o.KVType, Threads: o.Threads[0]})
	if err != nil {
		return nil, "", err
	}
	defer c.Close()
	want, err := c.Eval(tokens)
	if err != nil {
		return nil, "", err
	}
	cmp, err := harness.Bits(slices.Concat(rows...), want)
	return cmp, fmt.Sprintf("ggml-cpu-%s, no repacking", lib.Variant()), err
}

// LevelOf is the level whose bits a backend gives, as llamacpp.Lib names it.
func LevelOf(b graph.Backend) string {
	if c, ok := b.(*cpu.Backend); ok && c.Level() == cpu.AVX512 {
		return "avx512"
	}
	return "avx2"
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
