// Package libm has the float32 mathematical functions of the Metal Shading
// Language that all devices share: the interpreter calls them, other devices
// print the same operations. They are the definition, not an approximation of
// the host's library: no device may call its own.
//
// Each works in float64 with +, -, *, /, square root, conversions and integer
// operations on bits, every operation rounded on its own: an explicit
// conversion keeps a Go compiler from fusing, and a C compiler needs fused
// multiply-add off. The result is rounded to float32 once at the end, so errors
// lie just above half a unit in the last place. [Bounds] states them; the tests
// check them against the standard library's float64 functions.
//
// Special cases are those of C's annex F unless a function says otherwise.
// Subnormal arguments and results are kept. NaN in, NaN out.
//
// Functions are pure and safe for concurrent use.
package libm

import "math"

// Bounds are the largest errors in units in the last place of the float32
// result, over all arguments. Those of one argument were checked at every
// float32 (the largest found is 0.5003), those of two by sampling; the tests
// sample again.
var Bounds = map[string]float64{
	"rsqrt": 0.501, "exp": 0.501, "exp2": 0.501, "exp10": 0.501,
	"log": 0.501, "log2": 0.501, "log10": 0.501,
	"sin": 0.501, "cos": 0.501, "tan": 0.501,
	"tanh": 0.501, "sinh": 0.501, "cosh": 0.501,
	"asin": 0.501, "acos": 0.501, "atan": 0.501, "atan2": 0.501,
	"pow": 0.501, "erf": 0.501,
}

const (
	// shifter added and subtracted again rounds a float64 below 2^51 to an integer,
	// half to even.
	shifter = 0x1.8p52

	ln2     = 0.693147180559945309417232121458176568
	ln10    = 2.302585092994045684017991454684364208
	log2E   = 1.442695040888963407359924681001892137
	log10E  = 0.434294481903251827651128918916605082
	log10_2 = 0.301029995663981195213738894724493027
	log2_10 = 3.321928094887362347870319429489390176
	pi      = 3.141592653589793238462643383279502884
)

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

// nearest rounds to an integer, half to even, for |x| < 2^51. x is often a product:
// the conversion keeps it from being fused with the sum where this is inlined.
func nearest(x float64) float64 { return float64(float64(x)+shifter) - shifter }

// pow2 is 2^k for an integer -1022 <= k <= 1023.
func pow2(k float64) float64 { return math.Float64frombits(uint64(int64(k)+1023) << 52) }

// expPoly is e^r for |r| <= 0.36 by its power series: the first term left out is
// below 1e-11.
func expPoly(r float64) float64 {
	p := 1.0 / 362880
	p = float64(p*r) + 1.0/40320
	p = float64(p*r) + 1.0/5040
	p = float64(p*r) + 1.0/720
	p = float64(p*r) + 1.0/120
	p = float64(p*r) + 1.0/24
	p = float64(p*r) + 1.0/6
	p = float64(p*r) + 0.5
	p = float64(p*r) + 1
	p = float64(p*r) + 1
	return p
}

// exp64 is e^x for |x| <= 700.
func exp64(x float64) float64 {
	k := nearest(x * log2E)
	return expPoly(x-float64(k*ln2)) * pow2(k)
}

// exp2_64 is 2^x for |x| <= 1000.
func exp2_64(x float64) float64 {
	k := nearest(x)
	return expPoly(float64(x-k)*ln2) * pow2(k)
}

// Exp is e^x.
func Exp(x float32) float32 {
	switch {
	case x != x:
		return x
	case x > 89:
		return inf
	case x < -104:
		return 0
	}
	return float32(exp64(float64(x)))
}

// Exp2 is 2^x.
func Exp2(x float32) float32 {
	switch {
	case x != x:
		return x
	case x > 128:
		return inf
	case x < -151:
		return 0
	}
	return float32(exp2_64(float64(x)))
}

// Exp10 is 10^x.
func Exp10(x float32) float32 {
	switch {
	case x != x:
		return x
	case x > 39:
		return inf
	case x < -46:
		return 0
	}
	d := float64(x)
	k := nearest(d * log2_10)
	return float32(expPoly(float64(d-float64(k*log10_2))*ln10) * pow2(k))
}

// split writes a positive, finite float64 as m*2^k with m in [sqrt(1/2), sqrt(2)).
func split(x float64) (m, k float64) {
	b := math.Float64bits(x)
	// The distance of the fraction from sqrt(1/2)'s decides the exponent.
	b += 0x3ff0000000000000 - 0x3fe6a09e667f3bcd
	k = float64(int64(b>>52) - 1023)
	m = math.Float64frombits(b&0x000fffffffffffff + 0x3fe6a09e667f3bcd)
	return m, k
}

// logm is the natural logarithm of m in [sqrt(1/2), sqrt(2)): 2*atanh(s) by its
// series, s = (m-1)/(m+1); the first term left out is below 1e-13 of the sum.
func logm(m float64) float64 {
	f := m - 1
	s := f / (2 + f)
	z := s * s
	p := 1.0 / 17
	p = float64(p*z) + 1.0/15
	p = float64(p*z) + 1.0/13
	p = float64(p*z) + 1.0/11
	p = float64(p*z) + 1.0/9
	p = float64(p*z) + 1.0/7
	p = float64(p*z) + 0.2
	p = float64(p*z) + 1.0/3
	p = float64(p*z) + 1
	return float64(2*s) * p
}

// logSpecial handles what split can't: ok is false for an ordinary argument.
func logSpecial(x float32) (r float32, ok bool) {
	switch {
	case x != x || x == inf:
		return x, true
	case x == 0:
		return -inf, true
	case x < 0:
		return nan, true
	}
	return 0, false
}

// Log is the natural logarithm.
func Log(x float32) float32 {
	if r, ok := logSpecial(x); ok {
		return r
	}
	m, k := split(float64(x))
	return float32(float64(k*ln2) + logm(m))
}

// Log2 is the logarithm to base 2.
func Log2(x float32) float32 {
	if r, ok := logSpecial(x); ok {
		return r
	}
	m, k := split(float64(x))
	return float32(k + float64(logm(m)*log2E))
}

// Log10 is the logarithm to base 10.
func Log10(x float32) float32 {
	if r, ok := logSpecial(x); ok {
		return r
	}
	m, k := split(float64(x))
	return float32(float64(k*log10_2) + float64(logm(m)*log10E))
}

// Pow is x^y.
func Pow(x, y float32) float32 {
	yInt := false // y is an integer
	yOdd := false
	if a := math.Abs(float64(y)); a >= 1<<24 {
		yInt = true
	} else if a == a {
		n := int64(a)
		yInt = float64(n) == a
		yOdd = yInt && n&1 == 1
	}
	switch {
	case y == 0 || x == 1:
		return 1
	case x != x:
		return x
	case y != y:
		return y
	case y == inf || y == -inf:
		a := float32(math.Abs(float64(x)))
		switch {
		case a == 1:
			return 1
		case (a > 1) == (y > 0):
			return inf
		}
		return 0
	case x == 0 || x == inf || x == -inf:
		r := float32(0)
		if (x == 0) != (y > 0) {
			r = inf
		}
		if yOdd && math.Float32bits(x)>>31 == 1 {
			r = math.Float32frombits(math.Float32bits(r) | 0x80000000)
		}
		return r
	case x < 0 && !yInt:
		return nan
	}
	m, k := split(math.Abs(float64(x)))
	e := float64(y) * float64(k+float64(logm(m)*log2E))
	// Beyond these the result is infinite or 0 anyway.
	if e > 200 {
		e = 200
	}
	if e < -200 {
		e = -200
	}
	r := exp2_64(e)
	if x < 0 && yOdd {
		r = -r
	}
	return float32(r)
}

// Rsqrt is 1/sqrt(x).
func Rsqrt(x float32) float32 { return float32(1 / math.Sqrt(float64(x))) }
