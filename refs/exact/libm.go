package exact

import "math"

// The functions here give glibc's bits (section 10): the methods are its, the
// float64 results rounded by other libraries are not always the same.

// Expf is expf for finite x and -Inf.
func Expf(x float32) float32 {
	if x != x {
		return x
	}
	switch {
	case x > 0x1.62e42ep6: // ln(2^128)
		return float32(math.Inf(1))
	case x < -0x1.9fe368p6: // ln(2^-150)
		return 0
	}
	const n = 32
	zz := float64(x) * (n * 0x1.71547652b82fep+0)
	k := math.RoundToEven(zz)
	r := zz - k
	a := math.FMA(0x1.c6af84b912394p-5/n/n/n, r, 0x1.ebfce50fac4f3p-3/n/n)
	b := math.FMA(0x1.62e42ff0c52d6p-1/n, r, 1)
	y := math.FMA(a, float64(r*r), b)
	whole := math.Floor(k / n)
	return float32(math.Ldexp(y*math.Exp2((k-n*whole)/n), int(whole)))
}

// fourOverPi holds words of 4/pi's expansion, one byte apart, for the reduction
// of large arguments.
var fourOverPi = [24]uint32{
	0xa2, 0xa2f9, 0xa2f983, 0xa2f9836e, 0xf9836e4e, 0x836e4e44, 0x6e4e4415, 0x4e441529,
	0x441529fc, 0x1529fc27, 0x29fc2757, 0xfc2757d1, 0x2757d1f5, 0x57d1f534, 0xd1f534dd, 0xf534ddc0,
	0x34ddc0db, 0xddc0db62, 0xc0db6295, 0xdb629599, 0x6295993c, 0x95993c43, 0x993c4390, 0x3c439041,
}

// Sincosf is the sine and cosine of y >= 0.
func Sincosf(y float32) (sin, cos float32) {
	pattern := math.Float32bits(y)
	top := pattern >> 20
	x := float64(y)
	n := 0
	switch {
	case top >= 0x7f8: // infinite, NaN, or negative, which no angle here is
		return float32(math.NaN()), float32(math.NaN())
	case top < 0x398: // y < 2^-12
		return y, 1
	case top < 0x3f4: // y < 0.75
	case top < 0x42f: // y < 120
		r := float64(x * 0x1.45F306DC9C883p+23)
		n = int((int32(r) + 0x800000) >> 24)
		x = math.FMA(-float64(n), 0x1.921FB54442D18p0, x)
	default:
		n, x = reduceLarge(pattern)
	}

	sign, q := 1.0, 1.0
	if n&3 == 1 || n&3 == 2 {
		sign = -1
	}
	if n&2 != 0 {
		q = -1
	}
	x2 := float64(x * x)
	x = float64(x * sign)
	x3, x4 := float64(x2*x), float64(x2*x2)
	x5, x6 := float64(x3*x2), float64(x4*x2)
	s := float32(math.FMA(x5, math.FMA(x2, -0x1.994eb3774cf24p-13, 0x1.1107605230bc4p-7),
		math.FMA(x3, -0x1.555545995a603p-3, x)))
	c := float32(math.FMA(x6, math.FMA(x2, q*0x1.99343027bf8c3p-16, -q*0x1.6c087e89a359dp-10),
		math.FMA(x4, q*0x1.55553e1068f19p-5, math.FMA(x2, -q*0x1.ffffffd0c621cp-2, q))))
	if n&1 == 1 {
		return c, s
	}
	return s, c
}

// reduceLarge gives the quadrant and the rest of an angle of 120 or more.
func reduceLarge(pattern uint32) (n int, rest float64) {
	word := int(pattern >> 26 & 15)
	m := (pattern&0xffffff | 0x800000) << (pattern >> 23 & 7)
	high := uint64(m*fourOverPi[word]) << 32
	r := high | uint64(m)*uint64(fourOverPi[word+8])>>32
	r += uint64(m) * uint64(fourOverPi[word+4])
	quadrant := (r + 1<<61) >> 62
	return int(quadrant), float64(int64(r-quadrant<<62)) * 0x1.921FB54442D18p-62
}
