package ops

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"

	"minfer/engine/gguf"
	"minfer/engine/quant"
	"minfer/harness"
	"minfer/refs/llamacpp"
	"minfer/suites"
)

// quantizeCases compares whole files: every embedded model in every mix, made by
// engine/quant and by libllama. They need the library, since there is no smaller
// statement of what it writes.
func quantizeCases(env *suites.Env) []harness.Case {
	if env.Oracle == nil || env.Lines != nil {
		return nil
	}
	var cases []harness.Case
	for _, m := range env.Models {
		if m.Path != "" {
			continue // a given file may be quantised already
		}
		for _, name := range quant.MixNames() {
			if name == "f32" || name == "f16" {
				continue // the types of the source
			}
			id := harness.ID{Suite: "ops", Op: "quantize", Params: []harness.Param{harness.P("model", m.Name), harness.P("type", name)}}
			cases = append(cases, harness.Case{ID: id, Work: 1 << 24, Run: func(context.Context) (harness.Result, error) {
				return quantizeFile(env, m, name)
			}})
		}
	}
	return cases
}

func quantizeFile(env *suites.Env, m suites.Model, name string) (harness.Result, error) {
	source, err := env.ModelFile(m, "")
	if err != nil {
		return harness.Result{}, err
	}
	ours, err := env.ModelFile(m, name)
	if err != nil {
		return harness.Result{}, err
	}
	mix, err := quant.ParseMix(name)
	if err != nil {
		return harness.Result{}, err
	}
	theirs := filepath.Join(env.Temp, "llama."+name+".gguf")
	if err := env.Oracle.Quantize(source, theirs, llamacpp.QuantizeOptions{FType: llamacpp.FType(mix.FileType), Pure: mix.Pure, Threads: 1}); err != nil {
		return harness.Result{}, err
	}
	a, err := gguf.Open(ours)
	if err != nil {
		return harness.Result{}, err
	}
	defer a.Close()
	b, err := gguf.Open(theirs)
	if err != nil {
		return harness.Result{}, err
	}
	defer b.Close()
	if len(a.Tensors) != len(b.Tensors) {
		return harness.Failed("%d tensors, llama.cpp writes %d", len(a.Tensors), len(b.Tensors)), nil
	}
	total := int64(0)
	for i := range b.Tensors {
		want := &b.Tensors[i]
		got, ok := a.Tensor(want.Name)
		switch {
		case !ok:
			return harness.Failed("tensor %s is missing", want.Name), nil
		case got.Type != want.Type:
			return harness.Failed("tensor %s is %v, llama.cpp's is %v", want.Name, got.Type, want.Type), nil
		case !bytes.Equal(got.Data, want.Data):
			return harness.Failed("tensor %s (%v): %s", want.Name, want.Type, firstByte(got.Data, want.Data)), nil
		}
		total += int64(len(want.Data))
	}
	res := harness.Passed()
	res.Counts = []harness.Count{{Name: "quantised bytes equal", N: total}}
	return res, nil
}

func firstByte(got, want []byte) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("byte %d is %#02x, llama.cpp's is %#02x", i, got[i], want[i])
		}
	}
	return fmt.Sprintf("%d bytes, llama.cpp writes %d", len(got), len(want))
}
