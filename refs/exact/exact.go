// Package exact restates ggml's CPU arithmetic bit for bit: one obvious scalar
// float32 loop for every operator, in the order of docs/numerics.md. It is the
// reference of every contract that is stated in bits.
//
// It is written to be read beside that page, not to be fast; it imports
// engine/gguf alone and shares no code with the kernels that it judges. Values
// instead of bits, and error bounds, are the business of package refs.
//
// Two levels exist, which differ in a few places only (section 1): [H], what
// ggml computes with AVX2, FMA and F16C (its "haswell" variant), and [Z], with
// AVX-512 ("zen4").
//
// Layouts are those of the graph: rows of the innermost dimension, one row a
// token; a cache is [position][channel]. Functions allocate their result, leave
// their inputs unchanged and keep no state, so they are safe for concurrent use.
// Lengths that do not fit each other are a programmer's mistake and panic with
// the numbers; what can come from a file or a case line is an error.
//
// Rounding is explicit: float32(a*b) + c rounds twice, as the language
// guarantees, and [FMA] rounds once.
package exact

import "fmt"

// Level is the instruction set whose order of float operations is restated.
type Level uint8

// H is ggml's AVX2 build, Z its AVX-512 build.
const (
	H Level = iota
	Z
)

// String gives the level's letter in docs/numerics.md.
func (l Level) String() string {
	switch l {
	case H:
		return "H"
	case Z:
		return "Z"
	}
	return fmt.Sprintf("level(%d)", uint8(l))
}

// lanes is the number of float32 lanes of a vector.
func (l Level) lanes() int {
	if l == Z {
		return 16
	}
	return 8
}

// want panics unless got == expected: the shapes of a call do not fit.
func want(op, what string, got, expected int) {
	if got != expected {
		panic(fmt.Sprintf("exact: %s: %s is %d, want %d", op, what, got, expected))
	}
}

// rowsOf is the number of rows of length d in n values.
func rowsOf(op string, n, d int) int {
	if d <= 0 || n%d != 0 {
		panic(fmt.Sprintf("exact: %s: %d values do not make rows of %d", op, n, d))
	}
	return n / d
}
