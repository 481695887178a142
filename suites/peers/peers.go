// Package peers measures llama.cpp beside this engine: the same file, the same
// threads, prefill and decode interleaved in one run, with the rate of a plain
// read loop as the limit of decode. A rate counts only with its check: the logits
// of both are compared first.
package peers

import (
	"context"
	"fmt"
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
	Backend  graph.Backend
	Threads  int
	KVType   gguf.Type
	Prompt   int // tokens of a prefill round
	Generate int // tokens of a decode round
	Depth    int // cells in the cache before a decode round
	Rounds   int
	Seed     uint64
}

// Record is one comparison.
type Record struct {
	Provenance harness.Provenance `json:"provenance"`
	Model      string             `json:"model"`
	Weights    int64              `json:"weight_bytes"` // read for each token: all matrices but an untied embedding
	Threads    int                `json:"threads"`
	KV         string             `json:"kv"`
	Rows       []Row              `json:"rows"`
	// Check compares the logits of both engines; the rates count only if Agree.
	Check *harness.Comparison `json:"check"`
	Agree bool                `json:"agree"`
}

// Row is one measured side of one test.
type Row struct {
	Test     string          `json:"test"` // "prefill 128", "decode 32 at 64"
	Side     string          `json:"side"`
	Tokens   int             `json:"tokens"`
	Samples  []time.Duration `json:"samples_ns"`
	Rate     float64         `json:"tokens_per_second"` // of the median
	Spread   float64         `json:"spread"`            // of the samples: quartile distance over median
	VsLlama  float64         `json:"ratio_to_best_llama,omitempty"`
	OfLimit  float64         `json:"share_of_read_rate,omitempty"` // decode: bytes of weights a second over the read loop's
	ReadRate float64         `json:"read_bytes_per_second,omitempty"`
}

// contender runs tokens through one engine.
type contender struct {
	name  string
	reset func() error
	eval  func(tokens []int32) error
}

// Run measures. llama.cpp takes part twice: as it comes (repacked weights,
// whole micro-batches), and on the path whose bits this engine reproduces. An
// interrupted run gives the tests that every side has a sample of, with the
// context's error.
func Run(ctx context.Context, lib *llamacpp.Lib, o Options) (*Record, error) {
	f, err := gguf.Open(o.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := model.Load(f)
	if err != nil {
		return nil, err
	}
	rec := &Record{Model: o.Path, Threads: o.Threads, KV: o.KVType.String(), Weights: weightBytes(m)}
	if o.Prompt > m.NCtxTrain || o.Depth > m.NCtxTrain || o.Generate > m.NCtxTrain-o.Depth {
		return nil, fmt.Errorf("%s: a prefill of %d tokens and a decode of %d at depth %d: want them within the model's context of %d", o.Path, o.Prompt, o.Generate, o.Depth, m.NCtxTrain)
	}
	nCtx := max(o.Prompt, o.Depth+o.Generate) + 1
	ours, err := session.New(m, session.Options{Backends: []graph.Backend{o.Backend}, NCtx: nCtx, KVType: o.KVType})
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	sides := []contender{{"minfer", ours.Reset, func(tokens []int32) error {
		_, err := ours.Eval(tokens)
		return err
	}}}
	for _, setting := range []struct {
		name   string
		repack bool
		ubatch int
	}{{"llama.cpp", true, 512}, {"llama.cpp, no repacking", false, 1}} {
		c, closeAll, err := llama(lib, o, nCtx, setting.name, setting.repack, setting.ubatch)
		if err != nil {
			return nil, err
		}
		defer closeAll()
		sides = append(sides, c)
	}
	if rec.Check, rec.Agree, err = agree(lib, o, m); err != nil {
		return nil, err
	}

	tokens := make([]int32, nCtx)
	for i := range tokens {
		tokens[i] = int32((i*7919 + 13) % (m.NVocab - 1))
	}
	if err := rec.measure(ctx, o, fmt.Sprintf("prefill %d", o.Prompt), o.Prompt, 0, sides, nil, func(c contender) error {
		return c.eval(tokens[:o.Prompt])
	}); err != nil {
		return rec, err
	}
	limit := limits.NewReadLoop(o.Threads, readLoopBytes)
	err = rec.measure(ctx, o, fmt.Sprintf("decode %d at depth %d", o.Generate, o.Depth), o.Generate, o.Depth, sides, limit, func(c contender) error {
		for i := range o.Generate {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := c.eval(tokens[o.Depth+i:][:1]); err != nil {
				return err
			}
		}
		return nil
	})
	return rec, err
}

// measure interleaves the sides of one test of n tokens. A side is reset and its
// cache filled to the depth outside of the clock. With a limit, that takes part
// too, and the rates are put beside it.
func (rec *Record) measure(ctx context.Context, o Options, test string, n, depth int, sides []contender, limit *limits.ReadLoop, work func(contender) error) error {
	var measured []harness.Side
	for _, c := range sides {
		measured = append(measured, harness.Side{Name: c.name,
			Setup: func(context.Context) error {
				if err := c.reset(); err != nil || depth == 0 {
					return err
				}
				return c.eval(make([]int32, depth))
			},
			Round: func(context.Context) error { return work(c) }})
	}
	if limit != nil {
		measured = append(measured, harness.Side{Name: "read loop", Round: func(context.Context) error { limit.Round(); return nil }})
	}
	samples, err := harness.Interleave(ctx, 1, o.Rounds, o.Seed, measured)
	if err != nil && (ctx.Err() == nil || slices.ContainsFunc(samples, func(s []time.Duration) bool { return len(s) == 0 })) {
		return err
	}
	best := 0.0
	first := len(rec.Rows)
	for i, c := range sides {
		rate := float64(n) / harness.Median(samples[i]).Seconds()
		row := Row{Test: test, Side: c.name, Tokens: n, Samples: samples[i], Rate: rate, Spread: harness.Spread(samples[i])}
		if limit != nil {
			row.ReadRate = limit.Rate(samples[len(sides)])
			row.OfLimit = rate * float64(rec.Weights) / row.ReadRate
		}
		if i > 0 {
			best = math.Max(best, rate)
		}
		rec.Rows = append(rec.Rows, row)
	}
	for i := range rec.Rows[first:] {
		rec.Rows[first+i].VsLlama = rec.Rows[first+i].Rate / best
	}
	return err
}

// llama opens one setting of llama.cpp.
func llama(lib *llamacpp.Lib, o Options, nCtx int, name string, repack bool, ubatch int) (contender, func(), error) {
	m, err := lib.LoadModel(o.Path, llamacpp.ModelOptions{Repack: repack})
	if err != nil {
		return contender{}, nil, err
	}
	c, err := m.NewContext(llamacpp.ContextOptions{NCtx: nCtx, KVType: o.KVType, Threads: o.Threads, UBatch: min(ubatch, nCtx)})
	if err != nil {
		m.Close()
		return contender{}, nil, err
	}
	return contender{name, func() error { c.Reset(); return nil }, func(tokens []int32) error {
		_, err := c.EvalLast(tokens)
		return err
	}}, func() { c.Close(); m.Close() }, nil
}

// maxNMSE is how far the logits of llama.cpp's other instruction sets may be
// from ours: they quantise activations alike and add in another order, which
// flips an int8 here and there.
const maxNMSE = 1e-3

// agree evaluates the same tokens one by one with both engines, llama.cpp on the
// path that has our order of operations, and compares all logits: bits when the
// loaded variant has the backend's level, else within maxNMSE.
func agree(lib *llamacpp.Lib, o Options, m *model.Model) (*harness.Comparison, bool, error) {
	tokens := make([]int32, 16)
	for i := range tokens {
		tokens[i] = int32((i*104729 + 7) % (m.NVocab - 1))
	}
	s, err := session.New(m, session.Options{Backends: []graph.Backend{o.Backend}, NCtx: len(tokens), KVType: o.KVType})
	if err != nil {
		return nil, false, err
	}
	defer s.Close()
	rows, err := s.EvalAll(tokens)
	if err != nil {
		return nil, false, err
	}
	lm, err := lib.LoadModel(o.Path, llamacpp.ModelOptions{})
	if err != nil {
		return nil, false, err
	}
	defer lm.Close()
	c, err := lm.NewContext(llamacpp.ContextOptions{NCtx: len(tokens), KVType: o.KVType, Threads: o.Threads})
	if err != nil {
		return nil, false, err
	}
	defer c.Close()
	want, err := c.Eval(tokens)
	if err != nil {
		return nil, false, err
	}
	cmp, err := harness.Bits(slices.Concat(rows...), want)
	if err != nil {
		return nil, false, err
	}
	if lib.Level() == levelOf(o.Backend) {
		return cmp, cmp.OK(), nil
	}
	return cmp, cmp.NMSE <= maxNMSE, nil
}

// levelOf is the level whose bits a backend gives, as llamacpp.Lib names it.
func levelOf(b graph.Backend) string {
	if c, ok := b.(*cpu.Backend); ok && c.Level() == cpu.AVX512 {
		return "avx512"
	}
	return "avx2"
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

// readLoopBytes is the size of the read loop's buffer, half a GiB.
const readLoopBytes = 1 << 29
