package cli

import (
	"fmt"

	"minfer/refs/llamacpp"
)

// Describe says which llama.cpp is opened. The glibc decides the bits of its
// rotations.
func Describe(lib *llamacpp.Lib) string {
	return fmt.Sprintf("llama.cpp %s, ggml-cpu-%s, glibc %s", lib.Version(), lib.Variant(), lib.Glibc())
}
