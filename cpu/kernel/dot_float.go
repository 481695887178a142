package kernel

// Dots of plain types (section 5): 4 accumulators of 8 lanes, element i of every
// full 32 falls into accumulator (i/8)%4, lane i%8; then a tail in index order.

// perRow makes a MatVecFunc of a dot product.
func perRow(dot func(w, act []byte, n int) float32) MatVecFunc {
	return func(dst []float32, w []byte, stride int, act []byte, n int) {
		for i := range dst {
			dst[i] = dot(w[i*stride:], act, n)
		}
	}
}

func dotF32(w, act []byte, n int) float32 {
	full := n &^ 31
	var acc [32]float32
	for i := 0; i < full; i += 32 {
		for j := range 32 {
			x, y, z := f32At(w, i+j), f32At(act, i+j), acc[j]
			if s := float64(x)*float64(y) + float64(z); !doubtful(s) {
				acc[j] = float32(s)
			} else {
				acc[j] = fma32Odd(x, y, z)
			}
		}
	}
	lanes := combine32(&acc)
	return tailF32(ha8(&lanes), w, act, full, n)
}

// tailF32 adds elements i and on. It is what the vectoriser made of a scalar
// loop: groups of four with separate roundings, then fused single steps.
func tailF32(s float32, w, act []byte, i, n int) float32 {
	for ; i+4 <= n; i += 4 {
		for j := range 4 {
			s += float32(f32At(w, i+j) * f32At(act, i+j))
		}
	}
	for ; i < n; i++ {
		s = fma32(f32At(w, i), f32At(act, i), s)
	}
	return s
}

func dotF16(w, act []byte, n int) float32 {
	full := n &^ 31
	var acc [32]float32
	for i := 0; i < full; i += 32 {
		for j := range 32 {
			x, y, z := f16At(w, i+j), f16At(act, i+j), acc[j]
			if s := float64(x)*float64(y) + float64(z); !doubtful(s) {
				acc[j] = float32(s)
			} else {
				acc[j] = fma32Odd(x, y, z)
			}
		}
	}
	lanes := combine32(&acc)
	return tailF16(ha8(&lanes), w, act, full, n)
}

// tailF16 adds elements i and on in float64.
func tailF16(s float32, w, act []byte, i, n int) float32 {
	d := float64(s)
	for ; i < n; i++ {
		d += float64(float32(f16At(w, i) * f16At(act, i)))
	}
	return float32(d)
}

// dotBF16 sums horizontally like the quantised dots, and starts its float64 tail
// at +0, so a sum of -0 becomes +0 (section 16).
func dotBF16(w, act []byte, n int) float32 {
	full := n &^ 31
	var acc [32]float32
	for i := 0; i < full; i += 32 {
		for j := range 32 {
			x, y, z := bf16At(w, i+j), bf16At(act, i+j), acc[j]
			if s := float64(x)*float64(y) + float64(z); !doubtful(s) {
				acc[j] = float32(s)
			} else {
				acc[j] = fma32Odd(x, y, z)
			}
		}
	}
	lanes := combine32(&acc)
	return tailBF16(hs8(&lanes), w, act, full, n)
}

func tailBF16(s float32, w, act []byte, i, n int) float32 {
	d := float64(s) + 0
	for ; i < n; i++ {
		d += float64(float32(bf16At(w, i) * bf16At(act, i)))
	}
	return float32(d)
}
