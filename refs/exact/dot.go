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
	case gguf.F32:
		return DotF32(l, Floats(w), Floats(act)), nil
	case gguf.F16:
		return DotF16(l, widenF16(w), widenF16(act)), nil
	case gguf.BF16:
		return dotBF16(l, widenBF16(w), widenBF16(act)), nil
	case gguf.Q4_K:
		return dotQ4_K(n, w, act)
	case gguf.Q5_K:
		return dotQ5_K(n, w, act)
	case gguf.Q6_K:
		return dotQ6_K(n, w, act)
	}
	return dot32(t, n, w, act)
}

func widenF16(b []byte) []float32 {
	x := make([]float32, len(b)/2)
	for i := range x {
		x[i] = f16(b[2*i:])
	}
	return x
}

func widenBF16(b []byte) []float32 {
	x := make([]float32, len(b)/2)
	for i := range x {
		x[i] = F32FromBF16(u16(b[2*i:]))
	}
	return x
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

// lanesOf accumulates the whole steps of 4 vectors and returns the horizontal
// sum and how many elements it took.
func lanesOf(l Level, x, y []float32) (sum float32, done int) {
	width := l.lanes()
	var acc [4][16]float32
	done = len(x) / (4 * width) * (4 * width)
	for i := range done {
		a, lane := i/width%4, i%width
		acc[a][lane] = FMA(x[i], y[i], acc[a][lane])
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
