// Package peers measures llama.cpp beside this engine: the same file, the same
// threads, prefill and decode interleaved in one run, with the rate of a plain
// read loop over the same mapped weights as the limit of decode. A rate counts only
// with its check. On the CPU ([Run]) the logits of both are compared first, bit for
// bit, with a llama.cpp whose instruction set has the bits of the level that is
// measured ([Compare]). On a GPU ([RunGPU]) there are no bits to share: there the
// logits of both, and those that the timed rounds end with, are held against the
// float64 model's.
package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"minfer/engine/gguf"
	"minfer/engine/graph"
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
	b, err := openBench(o, 0)
	if err != nil {
		return err
	}
	defer b.f.Close()
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
		check, with, err = compare(lib, plain, o, b.m)
	}
	if err != nil {
		return err
	}
	for _, threads := range o.Threads {
		rec := b.record()
		rec.Threads, rec.Check, rec.With, rec.Agree = threads, check, with, check.OK()
		err := b.threads(ctx, rec, plain, repacked)
		if err != nil && (ctx.Err() == nil || len(rec.Rows) == 0) {
			return err
		}
		if err := errors.Join(done(rec), err); err != nil {
			return err
		}
	}
	return nil
}

// threads measures every test with a record's number of threads.
func (b *bench) threads(ctx context.Context, rec *Record, plain, repacked *llamacpp.Model) error {
	backend, err := b.o.Backend(rec.Threads)
	if err != nil {
		return err
	}
	if c, ok := backend.(io.Closer); ok {
		defer c.Close()
	}
	ours, err := session.New(b.m, session.Options{Backends: []graph.Backend{backend}, NCtx: b.nCtx, KVType: b.o.KVType})
	if err != nil {
		return err
	}
	defer ours.Close()
	sides := []contender{{Ours, ours.Pos, ours.Truncate, ours.Eval}}
	for _, s := range settings {
		lm := plain
		if s.repack {
			lm = repacked
		}
		c, err := lm.NewContext(llamacpp.ContextOptions{NCtx: b.nCtx, KVType: b.o.KVType, Threads: rec.Threads, UBatch: min(fillBatch, b.nCtx), FlashAttn: s.flash})
		if err != nil {
			return err
		}
		defer c.Close()
		sides = append(sides, contender{s.name, c.Pos, c.Truncate, c.EvalLast})
	}
	read := limits.NewReadLoopOf(rec.Threads, largest(b.f))
	peak := limits.MultiplyAdds
	if quantised(b.m) {
		peak = limits.ByteMultiplyAdds
	}
	output := int64(b.m.NEmbd) * int64(b.m.NVocab) // for the last token only
	return b.all(ctx, rec, sides, func(t *test) {
		t.drop = true
		if t.decode {
			t.warm = []int{min(t.tokens, warmDecode)}
			t.read = read
			return
		}
		t.warm = []int{min(t.tokens, warmPrefill)}
		t.adds, t.addRate = int64(t.tokens)*(rec.Adds-output)+output, peak(rec.Threads, peakTime)
	}, nil)
}

const (
	// peakTime is what a loop of multiply-adds takes at the least.
	peakTime = 10 * time.Millisecond
	// warmDecode and warmPrefill tokens have all weights in the caches of the system,
	// and the memory that a pass works in.
	warmDecode, warmPrefill = 2, 128
)
