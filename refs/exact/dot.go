package exact

import (
	"fmt"

	"minfer/engine/gguf"
)

// Dot is the product of one weight row of type t with one activation row of type
// [ActType](t), n elements each (section 5).
func Dot(l Level, t gguf.Type, n int, w, act []byte) (float32, error) {
	actType, err := ActType(t)
	if err != nil {
		return 0, fmt.Errorf("dot: %w", err)
	}
	if err := checkRow(t, n, w); err != nil {
		return 0, fmt.Errorf("dot: weights: %w", err)
	}
	if err := checkRow(actType, n, act); err != nil {
		return 0, fmt.Errorf("dot: activations: %w", err)
	}
	switch t {
	case gguf.F32, gguf.F16, gguf.BF16:
		return dotFloat(l, t, widen(t, w), widen(t, act)), nil
	case gguf.Q4_K:
		return dotQ4_K(n, w, act)
	case gguf.Q5_K:
		return dotQ5_K(n, w, act)
	case gguf.Q6_K:
		return dotQ6_K(n, w, act)
	}
	return dot32(t, n, w, act)
}

// widen gives the values of a row of F32, F16 or BF16, all of them exact.
func widen(t gguf.Type, b []byte) []float32 {
	size := t.BlockBytes()
	x := make([]float32, len(b)/size)
	for i := range x {
		switch t {
		case gguf.F32:
			x[i] = f32(b[4*i:])
		case gguf.F16:
			x[i] = f16(b[2*i:])
		case gguf.BF16:
			x[i] = F32FromBF16(u16(b[2*i:]))
		}
	}
	return x
}

// dotFloat is the dot of widened rows of a type that is not quantised.
func dotFloat(l Level, t gguf.Type, x, y []float32) float32 {
	switch t {
	case gguf.F16:
		return DotF16(l, x, y)
	case gguf.BF16:
		return DotBF16(l, x, y)
	}
	return DotF32(l, x, y)
}

// sumHS8 is the horizontal sum of the quantised dots and of softmax at level H.
func sumHS8(a []float32) float32 {
	var t [4]float32
	for i := range t {
		t[i] = a[i] + a[i+4]
	}
	return (t[0] + t[2]) + (t[1] + t[3])
}

// sumHA8 is that of the f32 and f16 dots at level H: neighbours first.
func sumHA8(a []float32) float32 {
	var t [4]float32
	for i := range t {
		t[i] = a[i] + a[i+4]
	}
	return (t[0] + t[1]) + (t[2] + t[3])
}

// sumR16 is that of level Z's 16 lanes: the upper half onto the lower, then HS8's
// order.
func sumR16(a []float32) float32 {
	var b [8]float32
	for i := range b {
		b[i] = a[i] + a[i+8]
	}
	return sumHS8(b[:])
}

// lanesOf accumulates whole steps of 4 vectors, element i in accumulator
// (i/W)%4, lane i%W, and returns the horizontal sum and how many it took.
func lanesOf(l Level, x, y []float32) (sum float32, done int) {
	width := l.lanes()
	var acc [4][16]float32
	for ; done+4*width <= len(x); done += 4 * width {
		for a := range acc {
			for lane := range width {
				i := done + a*width + lane
				acc[a][lane] = FMA(x[i], y[i], acc[a][lane])
			}
		}
	}
	for lane := range width {
		acc[0][lane] = (acc[0][lane] + acc[2][lane]) + (acc[1][lane] + acc[3][lane])
	}
	if l == Z {
		return sumR16(acc[0][:]), done
	}
	return sumHA8(acc[0][:]), done
}

// DotF32 is ggml's f32 dot. Its tail is the compiler's work: whole vectors of
// the tail are multiplied and added in order with two roundings, the rest with
// one.
func DotF32(l Level, x, y []float32) float32 {
	want("dot f32", "length of y", len(y), len(x))
	s, i := lanesOf(l, x, y)
	unit := 4
	if l == Z {
		unit = 8
	}
	for end := i + (len(x)-i)/unit*unit; i < end; i++ {
		s += float32(x[i] * y[i])
	}
	for ; i < len(x); i++ {
		s = FMA(x[i], y[i], s)
	}
	return s
}

// DotF16 is ggml's f16 dot of values that are exact in f16. The tail's products
// round to float32 and are added in float64.
func DotF16(l Level, x, y []float32) float32 {
	want("dot f16", "length of y", len(y), len(x))
	s, i := lanesOf(l, x, y)
	sum := float64(s)
	for ; i < len(x); i++ {
		sum += float64(float32(x[i] * y[i]))
	}
	return float32(sum)
}
