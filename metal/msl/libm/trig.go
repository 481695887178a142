package libm

import (
	"math"
	"math/bits"
)

// twoOverPi are the first 256 bits of (2/pi)/2.
var twoOverPi = [4]uint64{0x517cc1b727220a94, 0xfe13abe8fa9a6ee0, 0x6db14acc9e21c820, 0xff28b1d5ef5de2b0}

// pi/2 in pieces of 29, 29 and 53 bits: products with an integer below 2^24 are
// exact for the first two.
const (
	piOver2A = 0x1.921fb54p0
	piOver2B = 0x1.10b4611p-30
	piOver2C = 0x1.4c4c6628b80dcp-59
)

// reduce gives r in about [-pi/4, pi/4] and q modulo 4 with x = r + q*pi/2 + 2n*pi,
// for a finite x.
func reduce(x float32) (r float64, q uint64) {
	d := float64(x)
	if a := math.Abs(d); a < 1<<24 {
		k := nearest(d * (2 / pi))
		r = float64(float64(d-float64(k*piOver2A))-float64(k*piOver2B)) - float64(k*piOver2C)
		return r, uint64(int64(k)) & 3
	}
	// |x| = m*2^e with a 24-bit m and 1 <= e <= 104. t is (2/pi * 2^e modulo 4) *
	// 2^126, m*t modulo 2^128 the same for x*2/pi.
	b := math.Float32bits(x)
	m := uint64(b&0x7fffff | 0x800000)
	j := int(b>>23&255) - 150 - 1
	w := twoOverPi[j/64:]
	s := j % 64
	hi := w[0]<<s | w[1]>>1>>(63-s)
	lo := w[1]<<s | w[2]>>1>>(63-s)
	carry, _ := bits.Mul64(m, lo)
	hi = m*hi + carry
	q = (hi + 1<<61) >> 62
	r = float64(int64(hi-q<<62)) * (pi / 2 * 0x1p-62)
	if x < 0 {
		return -r, -q & 3
	}
	return r, q & 3
}

// sinPoly and cosPoly are the power series for |r| <= 0.8; the first terms left
// out are below 1e-13.

func sinPoly(r float64) float64 {
	z := r * r
	p := 1.0 / 6227020800
	p = float64(p*z) - 1.0/39916800
	p = float64(p*z) + 1.0/362880
	p = float64(p*z) - 1.0/5040
	p = float64(p*z) + 1.0/120
	p = float64(p*z) - 1.0/6
	return r + float64(float64(p*z)*r)
}

func cosPoly(r float64) float64 {
	z := r * r
	p := -1.0 / 87178291200
	p = float64(p*z) + 1.0/479001600
	p = float64(p*z) - 1.0/3628800
	p = float64(p*z) + 1.0/40320
	p = float64(p*z) - 1.0/720
	p = float64(p*z) + 1.0/24
	p = float64(p*z) - 0.5
	return float64(p*z) + 1
}

func finite(x float32) bool { return x-x == 0 }

// Sin is the sine of x in radians.
func Sin(x float32) float32 {
	if x == 0 || !finite(x) {
		return x * (x - x + 1) // -0 stays, infinity gives NaN
	}
	r, q := reduce(x)
	var y float64
	if q&1 == 0 {
		y = sinPoly(r)
	} else {
		y = cosPoly(r)
	}
	if q&2 != 0 {
		y = -y
	}
	return float32(y)
}

// Cos is the cosine of x in radians.
func Cos(x float32) float32 {
	if !finite(x) {
		return x - x
	}
	r, q := reduce(x)
	var y float64
	if q&1 == 0 {
		y = cosPoly(r)
	} else {
		y = sinPoly(r)
	}
	if (q+1)&2 != 0 {
		y = -y
	}
	return float32(y)
}

// Tan is the tangent of x in radians.
func Tan(x float32) float32 {
	if x == 0 || !finite(x) {
		return x * (x - x + 1)
	}
	r, q := reduce(x)
	if q&1 == 0 {
		return float32(sinPoly(r) / cosPoly(r))
	}
	return float32(-cosPoly(r) / sinPoly(r))
}

// atanPoly is the arc tangent of 0 <= z <= 1: at most 0.4143 after one step of
// the addition theorem, where the first term of the series left out is below
// 1e-13.
func atanPoly(z float64) float64 {
	base := 0.0
	if z > 0.41421356237309503 {
		base = pi / 4
		z = (z - 1) / (z + 1)
	}
	s := z * z
	p := 1.0 / 33
	p = float64(p*s) - 1.0/31
	p = float64(p*s) + 1.0/29
	p = float64(p*s) - 1.0/27
	p = float64(p*s) + 1.0/25
	p = float64(p*s) - 1.0/23
	p = float64(p*s) + 1.0/21
	p = float64(p*s) - 1.0/19
	p = float64(p*s) + 1.0/17
	p = float64(p*s) - 1.0/15
	p = float64(p*s) + 1.0/13
	p = float64(p*s) - 1.0/11
	p = float64(p*s) + 1.0/9
	p = float64(p*s) - 1.0/7
	p = float64(p*s) + 0.2
	p = float64(p*s) - 1.0/3
	return base + float64(z+float64(float64(p*s)*z))
}

// atan64 is the angle of (x, y), not both 0, in (-pi, pi].
func atan64(y, x float64) float64 {
	ay, ax := math.Abs(y), math.Abs(x)
	var a float64
	if ay <= ax {
		a = atanPoly(ay / ax)
	} else {
		a = pi/2 - atanPoly(ax/ay)
	}
	if x < 0 {
		a = pi - a
	}
	if y < 0 {
		a = -a
	}
	return a
}

// Atan is the arc tangent.
func Atan(x float32) float32 {
	switch {
	case x != x || x == 0:
		return x
	case x == inf:
		return pi / 2
	case x == -inf:
		return -pi / 2
	}
	return float32(atan64(float64(x), 1))
}

// Atan2 is the angle of the point (x, y).
func Atan2(y, x float32) float32 {
	neg := func(v float32) bool { return math.Float32bits(v)>>31 == 1 }
	var a float64
	switch {
	case x != x || y != y:
		return nan
	case y == 0:
		if neg(x) {
			a = pi
		}
	case x == 0:
		a = pi / 2
	case y-y != 0 && x-x != 0:
		a = pi / 4
		if neg(x) {
			a = 3 * pi / 4
		}
	case y-y != 0:
		a = pi / 2
	case x-x != 0:
		if neg(x) {
			a = pi
		}
	default:
		return float32(atan64(float64(y), float64(x)))
	}
	if neg(y) {
		a = -a
	}
	return float32(a)
}

// Asin is the arc sine.
func Asin(x float32) float32 {
	if x == 0 || x != x {
		return x
	}
	d := float64(x)
	return float32(asin64(d))
}

func asin64(d float64) float64 {
	c := float64(1-d) * float64(1+d)
	if c < 0 {
		return math.NaN()
	}
	return atan64(d, math.Sqrt(c))
}

// Acos is the arc cosine.
func Acos(x float32) float32 {
	d := float64(x)
	c := float64(1-d) * float64(1+d)
	if !(c >= 0) {
		return nan
	}
	if x == 1 {
		return 0
	}
	return float32(atan64(math.Sqrt(c), d))
}
