package lane

import (
	"math"
)

// plainReduceFAdd adds lane i to lane i^16, i^8, ... i^1; inactive lanes give -0,
// which changes nothing.
func plainReduceFAdd(v *[32]uint32, m uint32) float32 {
	var x [32]float32
	for l := range x {
		x[l] = math.Float32frombits(0x80000000)
		if m>>l&1 != 0 {
			x[l] = math.Float32frombits(v[l])
		}
	}
	for n := 16; n > 0; n /= 2 {
		for l := range n {
			x[l] += x[l+n]
		}
	}
	return x[0]
}

func plainReduceFMax(v *[32]uint32, m uint32) float32 {
	var x [32]float32
	for l := range x {
		x[l] = float32(math.Inf(-1))
		if m>>l&1 != 0 {
			x[l] = math.Float32frombits(v[l])
		}
	}
	for n := 16; n > 0; n /= 2 {
		for l := range n {
			x[l] = fmax(x[l], x[l+n])
		}
	}
	return x[0]
}

// plainMMA is d = a*b + c of 8x8 matrices in rows: for each element one fused
// multiply-add after another, k = 0 to 7, on top of c. d may be any operand.
func plainMMA(d, a, b, c *[64]float32) {
	var out [64]float32
	for i := range 8 {
		for j := range 8 {
			x := c[8*i+j]
			for k := range 8 {
				x = fma(a[8*i+k], b[8*k+j], x)
			}
			out[8*i+j] = x
		}
	}
	*d = out
}
