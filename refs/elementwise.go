package refs

import "math"

// Add is a + b. b may be shorter by a whole factor: it is then repeated, as a
// bias is over rows.
func Add(a, b []float64) []float64 {
	rowsOf("add", len(a), len(b))
	y := make([]float64, len(a))
	for i := range a {
		y[i] = a[i] + b[i%len(b)]
	}
	return y
}

// Mul is a * b by element; b repeats as in [Add].
func Mul(a, b []float64) []float64 {
	rowsOf("mul", len(a), len(b))
	y := make([]float64, len(a))
	for i := range a {
		y[i] = a[i] * b[i%len(b)]
	}
	return y
}

// Silu is x / (1 + exp(-x)).
func Silu(x []float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v / (1 + math.Exp(-v))
	}
	return y
}

// SwiGLU is silu(gate) * up.
func SwiGLU(gate, up []float64) []float64 {
	want("swiglu", "length of up", len(up), len(gate))
	return Mul(Silu(gate), up)
}
