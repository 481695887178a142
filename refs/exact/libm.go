package exact

import (
	"math"
	"math/big"
)

// The functions here give glibc's bits (section 10): the methods are its, the
// float64 results rounded by other libraries are not always the same.

// Expf is expf.
func Expf(x float32) float32 {
	switch {
	case x != x:
		return x
	case x > 0x1.62e42ep6: // ln(2^128)
		return float32(math.Inf(1))
	case x < -0x1.9fe368p6: // ln(2^-150)
		return 0
	}
	const n = 32
	zz := float64(float64(x) * (n * 0x1.71547652b82fep+0))
	k := math.RoundToEven(zz)
	r := zz - k
	a := math.FMA(0x1.c6af84b912394p-5/n/n/n, r, 0x1.ebfce50fac4f3p-3/n/n)
	b := math.FMA(0x1.62e42ff0c52d6p-1/n, r, 1)
	return float32(math.FMA(a, float64(r*r), b) * powerOf2(k))
}

// powerOf2 is 2^(k/32), the nearest float64.
func powerOf2(k float64) float64 {
	whole := math.Floor(k / 32)
	return math.Ldexp(roots[int(k-32*whole)], int(whole))
}

// roots holds the nearest float64 of 2^(i/32). math.Exp2 misses six of them by
// one bit.
var roots = func() (roots [32]float64) {
	const precision = 200
	step := new(big.Float).SetPrec(precision).SetInt64(2)
	for range 5 {
		step.Sqrt(step)
	}
	power := new(big.Float).SetPrec(precision).SetInt64(1)
	for i := range roots {
		roots[i], _ = power.Float64()
		power.Mul(power, step)
	}
	return roots
}()

// centres divide [0.7, 1.4) into 16: an approximate inverse of a point in each,
// and that point's natural and binary logarithm, as nearest float64.
var centres = [16]struct{ inverse, log, log2 float64 }{
	{0x1.661ec79f8f3bep+0, -0x1.57bf7808caadep-2, -0x1.efec65b963019p-2},
	{0x1.571ed4aaf883dp+0, -0x1.2bef0a7c06ddbp-2, -0x1.b0b6832d4fca4p-2},
	{0x1.49539f0f010b0p+0, -0x1.01eae7f513a67p-2, -0x1.7418b0a1fb77bp-2},
	{0x1.3c995b0b80385p+0, -0x1.b31d8a68224e9p-3, -0x1.39de91a6dcf7bp-2},
	{0x1.30d190c8864a5p+0, -0x1.6574f0ac07758p-3, -0x1.01d9bf3f2b631p-2},
	{0x1.25e227b0b8ea0p+0, -0x1.1aa2bc79c8100p-3, -0x1.97c1d1b3b7af0p-3},
	{0x1.1bb4a4a1a343fp+0, -0x1.a4e76ce8c0e5ep-4, -0x1.2f9e393af3c9fp-3},
	{0x1.12358f08ae5bap+0, -0x1.1973c5a611cccp-4, -0x1.960cbbf788d5cp-4},
	{0x1.0953f419900a7p+0, -0x1.252f438e10c1ep-5, -0x1.a6f9db6475fcep-5},
	{0x1.0000000000000p+0, 0, 0},
	{0x1.e608cfd9a47acp-1, 0x1.aa5aa5df25984p-5, 0x1.338ca9f24f53dp-4},
	{0x1.ca4b31f026aa0p-1, 0x1.c5e53aa362eb4p-4, 0x1.476a9543891bap-3},
	{0x1.b2036576afce6p-1, 0x1.526e57720db08p-3, 0x1.e840b4ac4e4d2p-3},
	{0x1.9c2d163a1aa2dp-1, 0x1.bc2860d224770p-3, 0x1.40645f0c6651cp-2},
	{0x1.886e6037841edp-1, 0x1.1058bc8a07ee1p-2, 0x1.88e9c2c1b9ff8p-2},
	{0x1.767dcf5534862p-1, 0x1.4043057b6ee09p-2, 0x1.ce0a44eb17bccp-2},
}

// split writes a positive normal x as 2^k * z with z in the division's range and
// gives its index and r = z*inverse - 1.
func split(x float32) (i int, k, r float64) {
	pattern := math.Float32bits(x)
	offset := pattern - 0x3f330000
	i = int(offset >> 19 & 15)
	k = float64(int32(offset) >> 23)
	z := float64(math.Float32frombits(pattern - offset&0xff800000))
	return i, k, math.FMA(z, centres[i].inverse, -1)
}

// Logf is logf of a positive normal x.
func Logf(x float32) float32 {
	if x == 1 {
		return 0
	}
	i, k, r := split(x)
	base := math.FMA(k, 0x1.62e42fefa39efp-1, centres[i].log)
	square := float64(r * r)
	p := math.FMA(0x1.5575b0be00b6ap-2, r, -0x1.ffffef20a4123p-2)
	p = math.FMA(-0x1.00ea348b88334p-2, square, p)
	return float32(math.FMA(p, square, base+r))
}

// Powf is powf of a positive normal x, with a result that is neither huge nor
// tiny.
func Powf(x, y float32) float32 {
	i, k, r := split(x)
	base := k + centres[i].log2
	square := float64(r * r)
	high := math.FMA(0x1.27616c9496e0bp-2, r, -0x1.71969a075c67ap-2)
	middle := math.FMA(0x1.ec70a6ca7baddp-2, r, -0x1.7154748bef6c8p-1)
	low := math.FMA(0x1.71547652ab82bp+0, r, base)
	low = math.FMA(middle, square, low)
	exponent := float64(float64(y) * math.FMA(high, float64(square*square), low))

	// 2^exponent in 32 steps and a cubic.
	step := math.RoundToEven(exponent * 32)
	r = exponent - step/32
	a := math.FMA(0x1.c6af84b912394p-5, r, 0x1.ebfce50fac4f3p-3)
	b := math.FMA(0x1.62e42ff0c52d6p-1, r, 1)
	return float32(math.FMA(a, float64(r*r), b) * powerOf2(step))
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
