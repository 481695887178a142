package model

import (
	"fmt"
	"slices"
	"strings"

	"minfer/engine/gguf"
	"minfer/engine/graph"
)

// arch is what tells one architecture's graph from another's. The facts are
// llama.cpp's, seen in its eval callback: which optional tensors it reads, and
// how it pairs a head's channels.
type arch struct {
	name        string
	mode        graph.RopeMode
	qkNorm      bool // RMS norm of each query and key head before the rotation
	ropeFactors bool // rope_freqs.weight is read where present
	blockBias   bool // biases of attn_output and of the feed-forward are read where present
	outputBias  bool // output.bias is read where present
}

// Biases of attn_q, attn_k and attn_v are optional in all three.
var archs = []arch{
	{name: "qwen2", mode: graph.RopeNeox, outputBias: true},
	{name: "qwen3", mode: graph.RopeNeox, qkNorm: true},
	{name: "llama", mode: graph.RopeNorm, ropeFactors: true, blockBias: true},
}

// Archs lists the architectures that Load accepts.
func Archs() []string {
	names := make([]string, len(archs))
	for i, a := range archs {
		names[i] = a.name
	}
	return names
}

func readArch(f *gguf.File) (arch, error) {
	v, ok := f.Lookup("general.architecture")
	if !ok {
		return arch{}, fmt.Errorf("key general.architecture is missing")
	}
	name, is := v.(string)
	if !is {
		return arch{}, fmt.Errorf("general.architecture is a %T, want a string", v)
	}
	i := slices.IndexFunc(archs, func(a arch) bool { return a.name == name })
	if i < 0 {
		return arch{}, fmt.Errorf("general.architecture is %q, want one of %s", name, strings.Join(Archs(), ", "))
	}
	if v, ok := f.Lookup("general.type"); ok && v != "model" {
		return arch{}, fmt.Errorf("general.type is %q, want \"model\"", fmt.Sprint(v))
	}
	return archs[i], nil
}
