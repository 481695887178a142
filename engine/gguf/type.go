package gguf

import (
	"fmt"
	"strings"
)

// Type is the element type of a tensor, numbered as GGUF files number it.
// It is the one type vocabulary of the project: the graph, the quantisers,
// the backends and the references all use it.
type Type uint32

// The types that this project reads. Q8_1 and Q8_K exist only as activation
// types and never in a file of ours.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q4_1 Type = 3
	Q5_0 Type = 6
	Q5_1 Type = 7
	Q8_0 Type = 8
	Q8_1 Type = 9
	Q4_K Type = 12
	Q5_K Type = 13
	Q6_K Type = 14
	Q8_K Type = 15
	I32  Type = 26
	BF16 Type = 30
)

// typeInfo holds a type's printed name (ggml's spelling) and its block layout.
type typeInfo struct {
	name       string
	blockSize  int // elements in a block
	blockBytes int // bytes in a block
}

var types = map[Type]typeInfo{
	F32:  {"f32", 1, 4},
	F16:  {"f16", 1, 2},
	BF16: {"bf16", 1, 2},
	I32:  {"i32", 1, 4},
	Q4_0: {"q4_0", 32, 18},
	Q4_1: {"q4_1", 32, 20},
	Q5_0: {"q5_0", 32, 22},
	Q5_1: {"q5_1", 32, 24},
	Q8_0: {"q8_0", 32, 34},
	Q8_1: {"q8_1", 32, 36},
	Q4_K: {"q4_K", 256, 144},
	Q5_K: {"q5_K", 256, 176},
	Q6_K: {"q6_K", 256, 210},
	Q8_K: {"q8_K", 256, 292},
}

// String gives ggml's spelling of the type ("q4_0", "q4_K"), or "type(N)" for
// a number that this project does not read.
func (t Type) String() string {
	if info, ok := types[t]; ok {
		return info.name
	}
	return fmt.Sprintf("type(%d)", uint32(t))
}

// Known reports whether the type is one that this project reads.
func (t Type) Known() bool {
	_, ok := types[t]
	return ok
}

// BlockSize is the number of elements in one block, 1 for plain types and 0
// for an unknown type.
func (t Type) BlockSize() int { return types[t].blockSize }

// BlockBytes is the number of bytes in one block, 0 for an unknown type.
func (t Type) BlockBytes() int { return types[t].blockBytes }

// RowBytes is the number of bytes that a row of n elements occupies. n must be
// a multiple of BlockSize; RowBytes panics otherwise, since every caller has
// checked the shape by then.
func (t Type) RowBytes(n int) int {
	info := types[t]
	if info.blockSize == 0 || n%info.blockSize != 0 {
		panic(fmt.Sprintf("gguf: a row of %d elements of %v: want a multiple of %d", n, t, info.blockSize))
	}
	return n / info.blockSize * info.blockBytes
}

// ParseType reads a type's name in any case ("Q4_0", "q4_k").
func ParseType(name string) (Type, error) {
	for t, info := range types {
		if strings.EqualFold(info.name, name) {
			return t, nil
		}
	}
	return 0, fmt.Errorf("unknown tensor type %q: want one of f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_K, q5_K, q6_K", name)
}
