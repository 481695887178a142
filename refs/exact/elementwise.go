package exact

// Add is a + b; b may be shorter by a whole factor and is then repeated, as a
// bias is over rows.
func Add(a, b []float32) []float32 {
	rowsOf("add", len(a), len(b))
	y := make([]float32, len(a))
	for i := range a {
		y[i] = a[i] + b[i%len(b)]
	}
	return y
}

// Mul is a * b by element; b repeats as in [Add].
func Mul(a, b []float32) []float32 {
	rowsOf("mul", len(a), len(b))
	y := make([]float32, len(a))
	for i := range a {
		y[i] = a[i] * b[i%len(b)]
	}
	return y
}
