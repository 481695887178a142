package kernel

import "math"

// vexp is the vector exponential of the AVX2 level (section 8). The selection is
// made per element: the library's early exit for a whole vector gives the same
// bits.
func vexp(x float32) float32 {
	z := fma32(x, 0x1.715476p+0, 0x1.8p23)
	n := z - 0x1.8p23
	b := fma32(-n, 0x1.7f7d1cp-20, fma32(-n, 0x1.62e4p-1, x))
	u := b * b
	p := fma32(fma32(0x1.0e4020p-7, b, 0x1.573e2ep-5), u, fma32(0x1.555e66p-3, b, 0x1.fffdb6p-2))
	j := fma32(p, u, 0x1.ffffecp-1*b)
	e := math.Float32bits(z) << 23
	a := math.Float32frombits(math.Float32bits(n) & 0x7fffffff)
	if !(a > 126) {
		k := math.Float32frombits(e + 0x3f800000)
		return fma32(j, k, k)
	}
	var g uint32
	if n <= 0 {
		g = 0x82000000
	}
	s1 := math.Float32frombits(g + 0x7f000000)
	if a > 192 {
		return s1 * s1
	}
	s2 := math.Float32frombits(e - g)
	return fma32(s2, j, s2) * s1
}

// softMax: the sum is float64, one addition per group of eight (hs8), then one
// per tail element; the tail takes libm's expf (section 8).
func softMax(x []float32, n int, scale float32) {
	ninf := float32(math.Inf(-1))
	top := ninf
	for i := range n {
		x[i] *= scale
		top = max(top, x[i])
	}
	for i := n; i < len(x); i++ {
		x[i] = ninf
	}
	var sum float64
	full := len(x) &^ 7
	for i := 0; i < full; i += 8 {
		g := (*[8]float32)(x[i:])
		for l, v := range g {
			g[l] = vexp(v - top)
		}
		sum += float64(hs8(g))
	}
	for i := full; i < len(x); i++ {
		x[i] = expf(x[i] - top)
		sum += float64(x[i])
	}
	inv := float32(1 / sum)
	for i := range x {
		x[i] *= inv
	}
}

func silu(dst, x []float32) {
	full := len(x) &^ 7
	for i, v := range x[:full] {
		dst[i] = v / (1 + vexp(0-v))
	}
	for i := full; i < len(x); i++ {
		dst[i] = x[i] / (1 + expf(-x[i]))
	}
}

// swiglu rounds the quotient, then the product.
func swiglu(dst, gate, up []float32) {
	full := len(gate) &^ 7
	for i, v := range gate[:full] {
		dst[i] = float32(v/(1+vexp(0-v))) * up[i]
	}
	for i := full; i < len(gate); i++ {
		dst[i] = float32(gate[i]/(1+expf(-gate[i]))) * up[i]
	}
}
