package kernel

import (
	"math"
)

// Ports of the glibc 2.36 single precision functions that llama.cpp's graphs
// reach (sections 10 and 16), with the fused operations of its x86-64 FMA
// variants. Correctly rounded functions would not do: glibc's differ from them
// in about 1 of 90 sines, 1 of 11,600 expf, 1 of 640 logf and 1 of 1,300 powf.

// sincosCoeffs are the sine and cosine polynomials, lowest power first.
var (
	sinCoeffs = [3]float64{-0x1.555545995a603p-3, 0x1.1107605230bc4p-7, -0x1.994eb3774cf24p-13}
	cosCoeffs = [5]float64{1, -0x1.ffffffd0c621cp-2, 0x1.55553e1068f19p-5, -0x1.6c087e89a359dp-10, 0x1.99343027bf8c3p-16}
)

// inv4Pi holds overlapping words of the bits of 4/pi for large arguments.
var inv4Pi = [24]uint32{
	0xa2, 0xa2f9, 0xa2f983, 0xa2f9836e, 0xf9836e4e, 0x836e4e44, 0x6e4e4415, 0x4e441529,
	0x441529fc, 0x1529fc27, 0x29fc2757, 0xfc2757d1, 0x2757d1f5, 0x57d1f534, 0xd1f534dd, 0xf534ddc0,
	0x34ddc0db, 0xddc0db62, 0xc0db6295, 0xdb629599, 0x6295993c, 0x95993c43, 0x993c4390, 0x3c439041,
}

// sincosf gives the sine and cosine of y as glibc's sinf and cosf do.
func sincosf(y float32) (sin, cos float32) {
	b := math.Float32bits(y)
	if b>>31 != 0 { // odd and even
		sin, cos = sincosf(-y)
		return -sin, cos
	}
	x, n, sgn := float64(y), 0, 1.0
	switch top := b >> 20; {
	case top < 0x398: // below 2^-12
		return y, 1
	case top < 0x3f4: // below 0.75
	case top < 0x42f: // below 120
		r := x * 0x1.45F306DC9C883p+23
		n = int((int32(r) + 0x800000) >> 24)
		x = math.FMA(-float64(n), 0x1.921FB54442D18p0, x)
	case top < 0x7f8:
		a := b >> 26 & 15
		m := (b&0xffffff | 0x800000) << (b >> 23 & 7)
		r := uint64(m*inv4Pi[a])<<32 | uint64(m)*uint64(inv4Pi[a+8])>>32
		r += uint64(m) * uint64(inv4Pi[a+4])
		q := (r + 1<<61) >> 62
		n = int(q)
		x = float64(int64(r-q<<62)) * 0x1.921FB54442D18p-62
	default: // infinity, NaN
		return y - y, y - y
	}
	if n&3 == 1 || n&3 == 2 {
		sgn = -1
	}
	q := 1.0
	if n&2 != 0 {
		q = -1
	}
	x2 := x * x
	x *= sgn
	x3, x4 := x2*x, x2*x2
	x5, x6 := x3*x2, x4*x2
	s := float32(math.FMA(x5, math.FMA(x2, sinCoeffs[2], sinCoeffs[1]), math.FMA(x3, sinCoeffs[0], x)))
	c := float32(math.FMA(x6, math.FMA(x2, q*cosCoeffs[4], q*cosCoeffs[3]),
		math.FMA(x4, q*cosCoeffs[2], math.FMA(x2, q*cosCoeffs[1], q))))
	if n&1 != 0 {
		return c, s
	}
	return s, c
}

// exp2Table holds 2^(i/32), rounded.
var exp2Table = [32]float64{
	0x1.0000000000000p+0, 0x1.059b0d3158574p+0, 0x1.0b5586cf9890fp+0, 0x1.11301d0125b51p+0,
	0x1.172b83c7d517bp+0, 0x1.1d4873168b9aap+0, 0x1.2387a6e756238p+0, 0x1.29e9df51fdee1p+0,
	0x1.306fe0a31b715p+0, 0x1.371a7373aa9cbp+0, 0x1.3dea64c123422p+0, 0x1.44e086061892dp+0,
	0x1.4bfdad5362a27p+0, 0x1.5342b569d4f82p+0, 0x1.5ab07dd485429p+0, 0x1.6247eb03a5585p+0,
	0x1.6a09e667f3bcdp+0, 0x1.71f75e8ec5f74p+0, 0x1.7a11473eb0187p+0, 0x1.82589994cce13p+0,
	0x1.8ace5422aa0dbp+0, 0x1.93737b0cdc5e5p+0, 0x1.9c49182a3f090p+0, 0x1.a5503b23e255dp+0,
	0x1.ae89f995ad3adp+0, 0x1.b7f76f2fb5e47p+0, 0x1.c199bdd85529cp+0, 0x1.cb720dcef9069p+0,
	0x1.d5818dcfba487p+0, 0x1.dfc97337b9b5fp+0, 0x1.ea4afa2a490dap+0, 0x1.f50765b6e4540p+0,
}

// exp2Scaled is 2^(z/32) in float64, short of its last rounding to float32.
func exp2Scaled(z float64) float64 {
	k := math.RoundToEven(z)
	r := z - k
	y := math.FMA(math.FMA(0x1.c6af84b912394p-5/(1<<15), r, 0x1.ebfce50fac4f3p-3/(1<<10)), r*r,
		math.FMA(0x1.62e42ff0c52d6p-1/32, r, 1))
	n := int64(k)
	return y * math.Float64frombits(math.Float64bits(exp2Table[n&31])+uint64(n>>5)<<52)
}

// expf is glibc's expf.
func expf(x float32) float32 {
	switch {
	case x != x:
		return x
	case x > 0x1.62e42ep6:
		return float32(math.Inf(1))
	case x < -0x1.9fe368p6:
		return 0
	}
	return float32(exp2Scaled(float64(float64(x) * (32 * 0x1.71547652b82fep+0))))
}

// logTable holds, for 16 intervals of the mantissa from 0x3f330000 on, 1/c for a
// c near the middle, and log(c) and log2(c), rounded.
var logTable = [16]struct{ inv, log, log2 float64 }{
	{0x1.661ec79f8f3bep+0, -0x1.57bf7808caadep-2, -0x1.efec65b963019p-2},
	{0x1.571ed4aaf883dp+0, -0x1.2bef0a7c06ddbp-2, -0x1.b0b6832d4fca4p-2},
	{0x1.49539f0f010bp+0, -0x1.01eae7f513a67p-2, -0x1.7418b0a1fb77bp-2},
	{0x1.3c995b0b80385p+0, -0x1.b31d8a68224e9p-3, -0x1.39de91a6dcf7bp-2},
	{0x1.30d190c8864a5p+0, -0x1.6574f0ac07758p-3, -0x1.01d9bf3f2b631p-2},
	{0x1.25e227b0b8eap+0, -0x1.1aa2bc79c81p-3, -0x1.97c1d1b3b7afp-3},
	{0x1.1bb4a4a1a343fp+0, -0x1.a4e76ce8c0e5ep-4, -0x1.2f9e393af3c9fp-3},
	{0x1.12358f08ae5bap+0, -0x1.1973c5a611cccp-4, -0x1.960cbbf788d5cp-4},
	{0x1.0953f419900a7p+0, -0x1.252f438e10c1ep-5, -0x1.a6f9db6475fcep-5},
	{0x1p+0, 0, 0},
	{0x1.e608cfd9a47acp-1, 0x1.aa5aa5df25984p-5, 0x1.338ca9f24f53dp-4},
	{0x1.ca4b31f026aap-1, 0x1.c5e53aa362eb4p-4, 0x1.476a9543891bap-3},
	{0x1.b2036576afce6p-1, 0x1.526e57720db08p-3, 0x1.e840b4ac4e4d2p-3},
	{0x1.9c2d163a1aa2dp-1, 0x1.bc2860d22477p-3, 0x1.40645f0c6651cp-2},
	{0x1.886e6037841edp-1, 0x1.1058bc8a07ee1p-2, 0x1.88e9c2c1b9ff8p-2},
	{0x1.767dcf5534862p-1, 0x1.4043057b6ee09p-2, 0x1.ce0a44eb17bccp-2},
}

// logSplit writes a positive finite x as 2^k * z, with z near the c of interval
// i, and returns z/c - 1.
func logSplit(x float32) (r float64, i int, k float64) {
	b := math.Float32bits(x)
	if b < 0x800000 { // subnormal
		b = math.Float32bits(x*0x1p23) - 23<<23
	}
	t := b - 0x3f330000
	i = int(t >> 19 & 15)
	z := math.Float32frombits(b - t&0xff800000)
	return math.FMA(float64(z), logTable[i].inv, -1), i, float64(int32(t) >> 23)
}

// logf is glibc's logf.
func logf(x float32) float32 {
	switch {
	case x == 1:
		return 0
	case !(x > 0) || x > math.MaxFloat32:
		return float32(math.Log(float64(x))) // special values only
	}
	r, i, k := logSplit(x)
	y0 := math.FMA(k, 0x1.62e42fefa39efp-1, logTable[i].log)
	r2 := r * r
	y := math.FMA(0x1.5575b0be00b6ap-2, r, -0x1.ffffef20a4123p-2)
	y = math.FMA(r2, -0x1.00ea348b88334p-2, y)
	return float32(math.FMA(r2, y, r+y0))
}

// powf is glibc's powf for finite x > 0 and finite y.
func powf(x, y float32) float32 {
	if !(x > 0) || x > math.MaxFloat32 || y != y || y == 0 {
		return float32(math.Pow(float64(x), float64(y))) // special values only
	}
	r, i, k := logSplit(x)
	p := math.FMA(0x1.ec70a6ca7baddp-2, r, -0x1.7154748bef6c8p-1)
	r2 := r * r
	l := math.FMA(r, 0x1.71547652ab82bp+0, k+logTable[i].log2)
	l = math.FMA(r2, p, l)
	l = math.FMA(math.FMA(0x1.27616c9496e0bp-2, r, -0x1.71969a075c67ap-2), r2*r2, l)
	yl := float64(float64(y) * l)
	switch {
	case yl > 0x1.fffffffd1d571p+6:
		return float32(math.Inf(1))
	case yl <= -150:
		return 0
	}
	return float32(exp2Scaled(yl * 32))
}
