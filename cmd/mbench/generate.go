package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"minfer/cmd/internal/cli"
	"minfer/cpu"
	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/engine/model"
	"minfer/engine/sampler"
	"minfer/engine/session"
	"minfer/engine/tokenizer"
	"minfer/harness"
	"minfer/metal"
	"minfer/suites"
)

const generateUsage = `
mbench run reads a prompt and writes what the model continues it with, then the
rates of both on stderr. Greedy unless a temperature is given. A prompt of up to
512 bytes on the CPU starts before the weights have been read once, and its rate
has that reading in it.

usage: mbench run [--model FILE] --prompt TEXT [-n N] [flags]
`

// generate is the command `mbench run`.
func generate(ctx context.Context, s cli.Streams, args []string) (int, error) {
	var path, prompt, file, device, cache string
	var n, nCtx, batch, threads int
	var special, raw bool
	var o sampler.Options
	set := cli.Flags(s, "mbench run", generateUsage)
	set.StringVar(&path, "model", "", "GGUF file (the first part of several); the embedded model without it")
	set.StringVar(&prompt, "prompt", "", "text to continue")
	set.StringVar(&file, "prompt-file", "", "read the prompt from this file")
	set.IntVarP(&n, "n", "n", 64, "tokens to generate; -1 for as many as the context allows")
	set.StringVar(&device, "device", "", "what runs the model: "+cli.DeviceHelp+"; without it a Mac's GPU where there is one, else cpu")
	set.IntVar(&nCtx, "ctx", 0, "context in tokens; 0 is the model's own, at most 4096")
	set.IntVar(&batch, "batch", 0, "most tokens of the prompt in one pass; 0 is 512")
	set.IntVar(&threads, "threads", 0, "threads; 0 is one per core")
	set.StringVar(&cache, "cache-type", "", "KV cache type: f16, f32, or on Metal q8_0 (also MINFER_CACHE_TYPE); without it f16, on Metal by the model's size")
	set.Float32Var(&o.Temperature, "temp", 0, "temperature; 0 is greedy")
	set.IntVar(&o.TopK, "top-k", 40, "sample from the k likeliest tokens; 0 for all")
	set.Float32Var(&o.TopP, "top-p", 0.95, "sample from the likeliest tokens up to this mass; 1 for all")
	set.Float32Var(&o.MinP, "min-p", 0.05, "drop tokens below this share of the likeliest; 0 for none")
	set.Uint64Var(&o.Seed, "seed", 1, "seed of the sampling")
	set.BoolVar(&special, "special", false, "read special tokens in the prompt")
	set.BoolVar(&raw, "ignore-eos", false, "go on after an end-of-text token")
	if err := cli.Parse(set, args, 0, 0); err != nil {
		return 0, err
	}
	levers, err := lever.Parse(s.Environ)
	if err != nil {
		return 0, err
	}
	if set.Changed("cache-type") {
		if !slices.Contains([]string{"f16", "f32", "q8_0"}, cache) {
			return 0, fmt.Errorf("--cache-type %q: want f16, f32 or q8_0", cache)
		}
		levers.CacheType = cache
	}
	if n < -1 {
		return 0, fmt.Errorf("-n %d: want a number of tokens, or -1 for as many as the context allows", n)
	}
	if file != "" {
		if prompt != "" {
			return 0, errors.New("--prompt and --prompt-file exclude each other")
		}
		if prompt, err = readPrompt(file); err != nil {
			return 0, fmt.Errorf("--prompt-file: %w", err)
		}
	}
	if prompt == "" {
		return 0, errors.New("--prompt TEXT is needed")
	}
	if threads == 0 {
		threads = cli.DefaultThreads()
	}

	started := deferGC()
	defer started()
	f, err := cli.OpenModel(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var t *tokenizer.Tokenizer
	made := make(chan error, 1)
	go func() { // meanwhile
		var err error
		t, err = tokenizer.New(f)
		made <- err
	}()
	m, err := model.LoadUnread(f)
	tokenizerErr := <-made
	if err == nil {
		err = tokenizerErr
	}
	if err != nil {
		return 0, err
	}
	sm, err := sampler.New(o)
	if err != nil {
		return 0, err
	}
	asked := device != ""
	if !asked {
		if device = cli.GPU(levers); device == "" {
			device = "cpu"
		}
	}
	dev, err := cli.Device(device, cli.DeviceOptions{Levers: levers})
	if err != nil {
		return 0, err
	}
	env := &suites.Env{Device: dev}
	defer env.Close()
	mo := metal.Options{Levers: levers}
	if device == "soft" { // which takes minutes for what a GPU does within its deadline
		mo.Deadline = suites.CheckedDeadline
	}
	backends, err := env.Backends(threads, mo)
	if err != nil {
		return 0, err
	}
	// What is read first is read twice; a trace shows what was computed from sound
	// weights only.
	var proof *model.Proof
	if b, ok := backends[0].(*cpu.Backend); ok && len(prompt) <= shortPrompt && levers.Trace == "" {
		proof = m.Prove()
		backends[0] = &proving{b, proof}
	} else if err := m.CheckFinite(); err != nil {
		return 0, err
	}
	so := session.Options{Backends: backends, NCtx: nCtx, Batch: batch, Notes: s.Stderr}
	if so.KVType, err = hold(m, backends[0], levers); err != nil {
		return 0, err
	}
	so.FuseQKV, so.FuseFFN = !levers.NoFuseQKV, !levers.NoFuseFFN
	exec := graph.ExecOptions{TraceDir: levers.Trace}
	if levers.GraphTrace {
		exec.Trace = s.Stderr
	}
	if levers.OpProfile {
		exec.Profile = s.Stderr
	}
	so.Exec = exec
	ses, err := session.New(m, so)
	if err != nil {
		return 0, err
	}
	defer ses.Close()
	if need, have := ses.Cache().Bytes(), cli.Memory(); have > 0 && need > have {
		return 0, fmt.Errorf("a context of %d tokens needs %d MiB of KV cache, this machine has %d MiB: want a smaller --ctx", ses.NCtx(), need>>20, have>>20)
	}

	ids := t.Encode(prompt, tokenizer.Options{AddSpecial: true, ParseSpecial: special})
	var stop func(int32) bool
	if !raw {
		stop = t.IsEOG
	}
	stream := t.NewStream()
	// Bad input shows before any output.
	room := ses.NCtx()
	if len(ids) > room {
		return 0, fmt.Errorf("the prompt has %d tokens: the context of %d tokens has room for %d", len(ids), room, room)
	}
	if left := room - len(ids) + 1; n > left { // the last token is not evaluated
		return 0, fmt.Errorf("-n %d: the context of %d tokens has room for %d after a prompt of %d", n, room, left, len(ids))
	}
	if err := traceable(levers.Trace); err != nil {
		return 0, err
	}
	begin := sync.OnceFunc(func() {
		if b, ok := backends[0].(*metal.Backend); ok {
			fmt.Fprintln(s.Stderr, metal.StartLine(b.Device()))
		} else if levers.DisableMPS {
			fmt.Fprintln(s.Stderr, metal.DisabledLine)
		} else if !asked {
			fmt.Fprintln(s.Stderr, metal.UnavailableLine)
		}
	})
	echo := sync.OnceFunc(func() {
		begin()
		fmt.Fprint(s.Stdout, prompt)
	})
	var broken error // weights
	prove := func() bool {
		if proof != nil {
			broken = proof.Finish()
		}
		return broken == nil
	}
	if proof == nil {
		echo()
	} else if levers.GraphTrace || levers.OpProfile {
		begin() // they show the first pass
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	var evaluated, first time.Time // the prompt's end, and from where the others' time counts
	drawn, err := ses.Generate(ctx, ids, n, sm, stop, func(id int32) {
		if first.IsZero() {
			if evaluated = time.Now(); !prove() {
				cancel()
				return
			}
			first = time.Now()
			started()
			echo()
		}
		fmt.Fprint(s.Stdout, stream.Push(id))
	})
	if first.IsZero() && !errors.Is(err, context.Canceled) {
		prove()
	}
	if broken != nil {
		return 0, broken
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return 0, err
	}
	echo()
	fmt.Fprintln(s.Stdout, stream.Flush())
	end := time.Now()
	if first.IsZero() {
		evaluated, first = end, end
	}
	if n == 0 {
		evaluated, first = start, start // nothing was evaluated: there is no rate
	}
	fmt.Fprintf(s.Stderr, "mbench: %s: prompt %s, generation %s\n", dev.Describe(),
		rate(len(ids), evaluated.Sub(start)), rate(max(len(drawn)-1, 0), end.Sub(first)))
	if err != nil {
		fmt.Fprintln(s.Stderr, "mbench: interrupted")
		return harness.ExitFailed, nil
	}
	return harness.ExitHeld, nil
}

// startHeap is up to where the heap grows before its first collection, unless the first
// token is there before: what a start makes is kept (a vocabulary, a cache), so looking
// for garbage early and often finds nothing and takes a tenth of the time.
const startHeap = 96 << 20

// deferGC says so to the runtime, whose first goal is a percentage of 4 MiB, and gives
// the function that ends it. Later goals would be that percentage of all that is kept,
// so the first collection ends it too. What a user has chosen (GOGC) stays as it is.
func deferGC() (end func()) {
	percent := debug.SetGCPercent(startHeap / (4 << 20) * 100)
	end = sync.OnceFunc(func() { debug.SetGCPercent(percent) })
	if percent != 100 {
		end()
		return end
	}
	unreachable := new([16]byte) // not smaller: those share their memory
	runtime.AddCleanup(unreachable, func(end func()) { end() }, end)
	return end
}

// traceable makes the directory of MINFER_TRACE and checks that files can be made
// in it; "" is none.
func traceable(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("MINFER_TRACE=%s: %w", dir, err)
	}
	f, err := os.CreateTemp(dir, "writable-*")
	if err != nil {
		return fmt.Errorf("MINFER_TRACE=%s: %w", dir, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// hold gives the first backend the model's weights where it holds its own, and
// chooses the type of the KV cache.
func hold(m *model.Model, first graph.Backend, l lever.Levers) (graph.DType, error) {
	kvType := gguf.F16
	if l.CacheType != "" {
		var err error
		if kvType, err = gguf.ParseType(l.CacheType); err != nil {
			return 0, err
		}
	}
	if b, ok := first.(*metal.Backend); ok {
		kvType = metal.CacheType(m.NLayer, m.KWidth(), l)
		m.Concatenate(!l.NoFuseQKV, !l.NoFuseFFN)
		if err := m.Hold(b); err != nil {
			return 0, err
		}
	}
	if !first.SupportsOp(graph.Attn, kvType) {
		return 0, fmt.Errorf("cache type %s: %s attends over f16 and f32 caches only", kvType, first.Name())
	}
	return kvType, nil
}

// maxPrompt bounds a prompt file, in bytes; a device file may have no end.
const maxPrompt = 64 << 20

func readPrompt(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPrompt+1))
	if err == nil && len(text) > maxPrompt {
		err = fmt.Errorf("%s: more than %d MiB", path, maxPrompt>>20)
	}
	return string(text), err
}

// rate prints a number of tokens and their rate.
func rate(n int, d time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d tokens", n)
	if n > 0 && d > 0 {
		fmt.Fprintf(&b, " at %.1f tokens/s", float64(n)/d.Seconds())
	}
	return b.String()
}
