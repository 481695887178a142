// Package models holds two small trained models, so that every command works on
// a fresh machine with no download: a Qwen2 and a Qwen3 graph, float16, vocabulary
// 4096, which continue simple English sentences.
//
// Only commands import it: eight megabytes each end up in the binary. Built with
// the tag noembed, it holds none and Open says so. The files are embedded as they
// lie in this directory; docs/numerics.md section 15 pins their hashes and their
// logits.
//
// All functions are safe for concurrent use.
package models

import "minfer/engine/gguf"

// Default is the model of commands that are given none.
const Default = "tiny-qwen2-f16"

// Open parses a model by name. Close it like a file of the disk; its bytes stay.
func Open(name string) (*gguf.File, error) {
	data, err := Bytes(name)
	if err != nil {
		return nil, err
	}
	return gguf.Read(name+".gguf", data)
}
