// Package refs holds the references that verification measures against: plain,
// obvious float64 operators with their own dequantisers, and a whole forward
// pass built of them ([Forward]).
//
// It is written to be read, not to be fast, and shares no arithmetic with what
// it judges: of this project it imports engine/gguf (the container and the type
// names) and nothing else. Package refs/exact is its companion for the other
// contract, bits instead of values; refs/dump and refs/llamacpp hold recorded
// and live results of llama.cpp.
//
// What it is not: a statement of rounding. Every operator works in float64 from
// the exact value of its inputs; a caller with float32 activations widens them
// with [F64]. The one rounding that is part of a reference's meaning, that of
// the KV cache's type, is explicit: [RoundKV].
//
// Layouts are those of the graph: row-major, innermost dimension first, one row
// a token; a head's channels are neighbours; a cache is [position][channel].
// Operators allocate their result and leave their inputs unchanged, so all of
// them are safe for concurrent use. Lengths that do not fit each other are a
// programmer's mistake and panic with the numbers; what can come from a file or
// a case line (a type, an id, a block's size) is an error.
package refs

import (
	"fmt"
	"math"
)

// F64 widens float32 values, exactly.
func F64(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// F32 rounds to float32, nearest even.
func F32(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// RMS is the root of the mean square, 0 for no values: the size of a reference,
// or of the terms that an operator adds up, in a case's tolerance.
func RMS(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum / float64(len(x)))
}

// want panics unless got == expected: the shapes of a call do not fit.
func want(op, what string, got, expected int) {
	if got != expected {
		panic(fmt.Sprintf("refs: %s: %s is %d, want %d", op, what, got, expected))
	}
}

// rowsOf is the number of rows of length d in n values.
func rowsOf(op string, n, d int) int {
	if d <= 0 || n%d != 0 {
		panic(fmt.Sprintf("refs: %s: %d values do not make rows of %d", op, n, d))
	}
	return n / d
}
