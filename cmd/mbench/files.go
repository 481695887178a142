package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"minfer/cmd/internal/cli"
	"minfer/engine/gguf"
	"minfer/engine/quant"
	"minfer/engine/synth"
	"minfer/harness"
)

const synthUsage = `
mbench synth writes a model file with the shapes of a real model and seeded
random weights: for benchmarks and tests, not for sense.

usage: mbench synth --arch qwen2 --size 0.5b --type q4_0 -o FILE [flags]
`

// synthesize is the command `mbench synth`.
func synthesize(ctx context.Context, s cli.Streams, args []string) (int, error) {
	var o synth.Options
	var mix, out, maxPart string
	set := cli.Flags(s, "mbench synth", synthUsage)
	set.StringVar(&o.Arch, "arch", "qwen2", "architecture: qwen2, qwen3 or llama")
	set.StringVar(&o.Size, "size", "0.5b", "size: "+sizes())
	set.StringVar(&mix, "type", "q4_0", "weight types: "+strings.Join(quant.MixNames(), ", "))
	set.Uint64Var(&o.Seed, "seed", 1, "seed of the weights")
	set.IntVar(&o.Layers, "layers", 0, "number of layers; 0 is the size's own")
	set.StringVar(&o.RopeScaling, "rope-scaling", "", "rope scaling in the metadata: linear or yarn")
	set.Float32Var(&o.RopeFactor, "rope-factor", 0, "its factor")
	set.IntVar(&o.RopeNCtxOrig, "rope-ctx-orig", 0, "its original context length")
	set.StringVar(&maxPart, "max-part", "", "split into parts of at most this size, as 100M or 1G")
	set.StringVarP(&out, "out", "o", "", "file to write")
	if err := cli.Parse(set, args, 0, 0); err != nil {
		return 0, err
	}
	if out == "" {
		return 0, errors.New("synth: -o FILE is needed")
	}
	var err error
	if o.Mix, err = quant.ParseMix(mix); err != nil {
		return 0, err
	}
	if o.MaxPartBytes, err = parseBytes(maxPart); err != nil {
		return 0, fmt.Errorf("--max-part %q: %w", maxPart, err)
	}
	m, err := synth.Model(o)
	if err != nil {
		return 0, err
	}
	for i := range m.Tensors {
		write := m.Tensors[i].WriteTo
		m.Tensors[i].WriteTo = func(w io.Writer) error { return write(untilDone{ctx, w}) }
	}
	paths, err := gguf.Write(out, m, gguf.WriteOptions{MaxPartBytes: o.MaxPartBytes})
	if err != nil {
		return 0, err
	}
	for _, p := range paths {
		fmt.Fprintln(s.Stdout, p)
	}
	return harness.ExitHeld, nil
}

// untilDone is a writer that fails once its context is done.
type untilDone struct {
	ctx context.Context
	w   io.Writer
}

func (u untilDone) Write(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.w.Write(p)
}

// sizes lists the sizes of every architecture.
func sizes() string {
	var parts []string
	for _, arch := range []string{"qwen2", "qwen3", "llama"} {
		parts = append(parts, fmt.Sprintf("%s: %s", arch, strings.Join(synth.Sizes(arch), " ")))
	}
	return strings.Join(parts, "; ")
}

// parseBytes reads a size with an optional K, M or G (powers of 1024).
func parseBytes(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	unit := int64(1)
	digits := text
	switch text[len(text)-1] {
	case 'K', 'k':
		unit = 1 << 10
	case 'M', 'm':
		unit = 1 << 20
	case 'G', 'g':
		unit = 1 << 30
	}
	if unit > 1 {
		digits = text[:len(text)-1]
	}
	var n int64
	if _, err := fmt.Sscanf(digits+" ", "%d ", &n); err != nil || n < 1 || n > (1<<62)/unit || fmt.Sprint(n) != digits {
		return 0, errors.New("want a size such as 500M or 2G")
	}
	return n * unit, nil
}

const quantizeUsage = `
mbench quantize writes a model with its weights in another type, with the bytes
that llama.cpp's quantiser makes. The names of llama.cpp's mixes (q4_0, q4_K_M,
...) choose each tensor's type as llama.cpp does; q4_K and q5_K mean that type
for every matrix.

usage: mbench quantize IN OUT TYPE [flags]
`

// quantize is the command `mbench quantize`.
func quantize(ctx context.Context, s cli.Streams, args []string) (int, error) {
	var o quant.Options
	var quiet, pure bool
	set := cli.Flags(s, "mbench quantize", quantizeUsage)
	set.IntVar(&o.Workers, "threads", 0, "threads; 0 is one per core")
	set.BoolVar(&o.Requantize, "requantize", false, "allow a source that is itself quantised")
	set.BoolVar(&pure, "pure", false, "one type for every matrix, also in llama.cpp's mixes")
	set.BoolVarP(&quiet, "quiet", "q", false, "do not list the tensors")
	if err := cli.Parse(set, args, 3, 3); err != nil {
		return 0, err
	}
	if o.Workers < 0 {
		return 0, fmt.Errorf("quantize: --threads %d: want at least 1, or 0 for one per core", o.Workers)
	}
	mix, err := quant.ParseMix(set.Arg(2))
	if err != nil {
		return 0, err
	}
	mix.Pure = mix.Pure || pure
	src, err := gguf.Open(set.Arg(0))
	if err != nil {
		return 0, err
	}
	defer src.Close()
	o.Progress = func(step quant.Step) error {
		if !quiet {
			fmt.Fprintf(s.Stdout, "%4d/%d %-36s %v -> %v\n", step.Index+1, step.Count, step.Name, step.From, step.To)
		}
		return ctx.Err()
	}
	if err := quant.File(set.Arg(1), src, mix, o); err != nil {
		return 0, err
	}
	return harness.ExitHeld, nil
}
