package peers

import (
	"fmt"
	"io"
	"slices"

	"minfer/cpu"
	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/model"
	"minfer/engine/session"
	"minfer/harness"
	"minfer/refs/llamacpp"
)

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
