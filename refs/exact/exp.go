package exact

import "math"

// Exp is ggml's vector exp (section 8), which softmax and silu use for whole
// vectors.
func Exp(l Level, x float32) float32 {
	// n is x/ln2 rounded to an integer by pushing the fraction out; b the rest.
	z := FMA(x, 0x1.715476p+0, 0x1.8p23)
	n := z - 0x1.8p23
	b := FMA(-n, 0x1.7f7d1cp-20, FMA(-n, 0x1.62e4p-1, x))
	u := b * b
	p := FMA(FMA(0x1.0e4020p-7, b, 0x1.573e2ep-5), u, FMA(0x1.555e66p-3, b, 0x1.fffdb6p-2))
	if l == Z {
		return expZ(n, FMA(p, u, FMA(0x1.ffffecp-1, b, 1)))
	}

	j := FMA(p, u, float32(0x1.ffffecp-1*b))
	e := math.Float32bits(z) << 23
	k := math.Float32frombits(e + 0x3f800000) // 2^n
	size := math.Abs(float64(n))
	if !(size > 126) {
		return FMA(j, k, k)
	}
	// 2^n does not fit: two factors, of which the first is at the edge.
	g := uint32(0)
	if n <= 0 {
		g = 0x82000000
	}
	s1 := math.Float32frombits(g + 0x7f000000)
	if size > 192 {
		return s1 * s1 // 0 or +Inf
	}
	s2 := math.Float32frombits(e - g)
	return FMA(s2, j, s2) * s1
}

// expZ is j * 2^n with one rounding, as the scaling instruction does it.
func expZ(n, j float32) float32 {
	if size := math.Abs(float64(n)); size > 192 {
		if n <= 0 {
			return 0
		}
		return float32(math.Inf(1))
	}
	if n != n {
		return n
	}
	// A product with a power of two is exact in float64, at |n| <= 192.
	return float32(math.Ldexp(float64(j), int(n)))
}
