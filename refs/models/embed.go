//go:build !noembed

package models

import (
	_ "embed" // the files below
	"fmt"
	"strings"
)

//go:embed tiny-qwen2-f16.gguf
var tinyQwen2 []byte

//go:embed tiny-qwen3-f16.gguf
var tinyQwen3 []byte

// Names lists the embedded models, the default first.
func Names() []string { return []string{Default, "tiny-qwen3-f16"} }

// Bytes gives the file of a model. The slice is shared: do not change it.
func Bytes(name string) ([]byte, error) {
	switch name {
	case Default:
		return tinyQwen2, nil
	case "tiny-qwen3-f16":
		return tinyQwen3, nil
	}
	return nil, fmt.Errorf("embedded model %q: want one of %s", name, strings.Join(Names(), ", "))
}
