package exact

// Silu is x / (1 + exp(-x)) over rows of d values; the last d modulo 8 (H) or 16
// (Z) of a row use libm's exp (section 8).
func Silu(l Level, x []float32, d int) []float32 {
	rows := rowsOf("silu", len(x), d)
	y := make([]float32, len(x))
	for r := range rows {
		for i := range d {
			v := x[r*d+i]
			if i < d/l.lanes()*l.lanes() {
				y[r*d+i] = v / (1 + Exp(l, 0-v))
			} else {
				y[r*d+i] = v / (1 + Expf(-v))
			}
		}
	}
	return y
}

// SwiGLU is silu(gate) * up over rows of d values, with a rounding between.
func SwiGLU(l Level, gate, up []float32, d int) []float32 {
	want("swiglu", "length of up", len(up), len(gate))
	return Mul(Silu(l, gate, d), up)
}
