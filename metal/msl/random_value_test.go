package msl_test

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
)

// The arithmetic of the language, written a second time and one value at a time:
// what TestRandomPrograms holds the compiler and the device against.

type kind int

const (
	kBool kind = iota
	kChar
	kUchar
	kShort
	kUshort
	kInt
	kUint
	kLong
	kUlong
	kHalf
	kFloat
)

var kindNames = [...]string{"bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "float"}

func (k kind) float() bool  { return k >= kHalf }
func (k kind) signed() bool { return k == kChar || k == kShort || k == kInt || k == kLong }
func (k kind) bits() int    { return [...]int{1, 8, 8, 16, 16, 32, 32, 64, 64, 16, 32}[k] }

// A typ is a scalar (n is 1) or a vector.
type typ struct {
	k kind
	n int
}

func (t typ) String() string {
	if t.n == 1 {
		return kindNames[t.k]
	}
	return fmt.Sprintf("%s%d", kindNames[t.k], t.n)
}

// A value holds integers extended to 64 bits by their sign, halves and floats as the
// bits of the float of that value.
type value [4]uint64

func f32(x uint64) float32   { return math.Float32frombits(uint32(x)) }
func fromF(x float32) uint64 { return uint64(math.Float32bits(x)) }

// roundHalf rounds to the nearest half, ties to even.
func roundHalf(x float32) float32 {
	a := math.Abs(float64(x))
	if a == 0 || math.IsInf(a, 0) || math.IsNaN(a) {
		return x
	}
	_, e := math.Frexp(a)
	ulp := math.Ldexp(1, max(e-11, -24))
	r := math.RoundToEven(a/ulp) * ulp
	if r >= 65536 {
		r = math.Inf(1)
	}
	return float32(math.Copysign(r, float64(x)))
}

// halfBits is the encoding of a value that is a half.
func halfBits(x float32) uint64 {
	a := math.Abs(float64(x))
	var h uint64
	switch {
	case math.IsNaN(a):
		return 0x7e00
	case math.IsInf(a, 0):
		h = 0x7c00
	case a < 0x1p-14:
		h = uint64(a * 0x1p24)
	default:
		m, e := math.Frexp(a) // a = m * 2^e, m in [0.5, 1)
		h = uint64(e+14)<<10 + uint64(m*2048) - 1024
	}
	if math.Signbit(float64(x)) {
		h |= 0x8000
	}
	return h
}

func halfFromBits(h uint64) float32 {
	e, m := int(h>>10&31), float64(h&1023)
	var a float64
	switch {
	case e == 31 && m == 0:
		a = math.Inf(1)
	case e == 31:
		a = math.NaN()
	case e == 0:
		a = m * 0x1p-24
	default:
		a = math.Ldexp(1024+m, e-25)
	}
	if h&0x8000 != 0 {
		a = -a
	}
	return float32(a)
}

// wrap brings an integer into a type's range.
func wrap(x uint64, k kind) uint64 {
	if k == kBool {
		return x & 1
	}
	s := 64 - k.bits()
	if k.signed() {
		return uint64(int64(x<<s) >> s)
	}
	return x << s >> s
}

func convert(x uint64, from, to kind) uint64 {
	switch {
	case from == to:
		return x
	case to == kBool:
		if from.float() {
			return truth(f32(x) != 0)
		}
		return truth(x != 0)
	case from.float() && to.float():
		if to == kHalf {
			return fromF(roundHalf(f32(x)))
		}
		return x
	case from.float():
		f := float64(f32(x))
		if math.IsNaN(f) {
			return 0
		}
		f = math.Trunc(f)
		n := to.bits()
		if to.signed() {
			if f < -math.Ldexp(1, n-1) {
				return ^uint64(0) << (n - 1)
			}
			if f >= math.Ldexp(1, n-1) {
				return uint64(1)<<(n-1) - 1
			}
			return uint64(int64(f))
		}
		if f < 0 {
			return 0
		}
		if f >= math.Ldexp(1, n) {
			return math.MaxUint64 >> (64 - n)
		}
		return uint64(f)
	case to.float():
		b := new(big.Float).SetPrec(64)
		if from.signed() {
			b.SetInt64(int64(x))
		} else {
			b.SetUint64(x)
		}
		f, _ := b.Float32()
		if to == kHalf {
			d, _ := b.Float64() // exact for what a half can hold
			if math.Abs(d) > 1<<20 {
				return fromF(float32(math.Copysign(math.Inf(1), d)))
			}
			f = roundHalf(f)
		}
		return fromF(f)
	}
	return wrap(x, to)
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func promote(k kind) kind {
	if k < kInt {
		return kInt
	}
	return k
}

// usual is the common type of two scalar operands.
func usual(a, b kind) kind {
	switch {
	case a == kFloat || b == kFloat:
		return kFloat
	case a == kHalf || b == kHalf:
		return kHalf
	}
	return max(promote(a), promote(b)) // the order of the constants is that of the ranks
}

var comparisons = []string{"<", "<=", ">", ">=", "==", "!="}

func compare(op string, k kind, x, y uint64) uint64 {
	var less, equal bool
	switch {
	case k.float():
		less, equal = f32(x) < f32(y), f32(x) == f32(y)
		if f32(x) != f32(x) || f32(y) != f32(y) {
			return truth(op == "!=")
		}
	case k.signed():
		less, equal = int64(x) < int64(y), x == y
	default:
		less, equal = x < y, x == y
	}
	switch op {
	case "<":
		return truth(less)
	case "<=":
		return truth(less || equal)
	case ">":
		return truth(!less && !equal)
	case ">=":
		return truth(!less)
	case "==":
		return truth(equal)
	}
	return truth(!equal)
}

// binary computes in the type k, which both operands have. Divisors are not 0.
func calculate(op string, k kind, x, y uint64) uint64 {
	if k.float() {
		a, b := f32(x), f32(y)
		var r float32
		switch op {
		case "+":
			r = a + b
		case "-":
			r = a - b
		case "*":
			r = a * b
		case "/":
			r = a / b
		}
		if k == kHalf {
			r = roundHalf(r)
		}
		return fromF(r)
	}
	var r uint64
	switch op {
	case "+":
		r = x + y
	case "-":
		r = x - y
	case "*":
		r = x * y
	case "/", "%":
		switch {
		case !k.signed() && op == "/":
			r = x / y
		case !k.signed():
			r = x % y
		case int64(y) == -1 && op == "/":
			r = -x
		case int64(y) == -1:
			r = 0
		case op == "/":
			r = uint64(int64(x) / int64(y))
		default:
			r = uint64(int64(x) % int64(y))
		}
	case "&":
		r = x & y
	case "|":
		r = x | y
	case "^":
		r = x ^ y
	case "<<":
		r = x << (y & uint64(k.bits()-1))
	case ">>":
		r = x >> (y & uint64(k.bits()-1))
		if k.signed() {
			r = uint64(int64(x) >> (y & uint64(k.bits()-1)))
		}
	}
	return wrap(r, k)
}

// fused is x*y + z rounded once to float.
func fused(x, y, z float32) float32 {
	for _, v := range []float32{x, y, z} {
		if f := float64(v); math.IsInf(f, 0) || math.IsNaN(f) {
			return float32(math.FMA(float64(x), float64(y), float64(z)))
		}
	}
	if x == 0 || y == 0 || z == 0 {
		return float32(float64(x)*float64(y) + float64(z)) // one of the two is exact
	}
	p := new(big.Float).SetPrec(0).SetMode(big.ToNearestEven)
	p.SetPrec(1000).Mul(big.NewFloat(float64(x)), big.NewFloat(float64(y)))
	p.Add(p, big.NewFloat(float64(z)))
	if p.Sign() == 0 {
		return 0
	}
	r, _ := p.Float32()
	return r
}

// A function of the library that works component by component.
type function struct {
	name   string
	args   int
	ints   bool
	floats bool
	f      func(k kind, x, y, z uint64) uint64
}

var functions = []function{
	{"min", 2, true, true, func(k kind, x, y, _ uint64) uint64 { return pick(k, x, y, true) }},
	{"max", 2, true, true, func(k kind, x, y, _ uint64) uint64 { return pick(k, x, y, false) }},
	{"abs", 1, true, true, func(k kind, x, _, _ uint64) uint64 {
		switch {
		case k.float():
			return x &^ (1 << 31)
		case k.signed() && int64(x) < 0:
			return wrap(-x, k)
		}
		return x
	}},
	{"popcount", 1, true, false, func(k kind, x, _, _ uint64) uint64 { return uint64(bits.OnesCount64(zext(k, x))) }},
	{"clz", 1, true, false, func(k kind, x, _, _ uint64) uint64 {
		return uint64(bits.LeadingZeros64(zext(k, x)) - 64 + k.bits())
	}},
	{"ctz", 1, true, false, func(k kind, x, _, _ uint64) uint64 {
		return uint64(min(bits.TrailingZeros64(zext(k, x)), k.bits()))
	}},
	{"reverse_bits", 1, true, false, func(k kind, x, _, _ uint64) uint64 {
		return wrap(bits.Reverse64(zext(k, x))>>(64-k.bits()), k)
	}},
	{"rotate", 2, true, false, func(k kind, x, y, _ uint64) uint64 {
		n := uint64(k.bits())
		s, z := y&(n-1), zext(k, x)
		return wrap(z<<s|z>>(n-s), k)
	}},
	{"mulhi", 2, true, false, func(k kind, x, y, _ uint64) uint64 {
		var p big.Int
		p.Mul(whole(k, x), whole(k, y)).Rsh(&p, uint(k.bits()))
		if p.Sign() < 0 {
			return wrap(uint64(p.Int64()), k)
		}
		return wrap(p.Uint64(), k)
	}},
	{"addsat", 2, true, false, func(k kind, x, y, _ uint64) uint64 { return saturated(k, x, y, (*big.Int).Add) }},
	{"subsat", 2, true, false, func(k kind, x, y, _ uint64) uint64 { return saturated(k, x, y, (*big.Int).Sub) }},
	{"clamp", 3, true, false, func(k kind, x, y, z uint64) uint64 {
		return pick(k, pick(k, x, y, false), z, true)
	}},
	{"floor", 1, false, true, rounder(math.Floor)},
	{"ceil", 1, false, true, rounder(math.Ceil)},
	{"trunc", 1, false, true, rounder(math.Trunc)},
	{"rint", 1, false, true, rounder(math.RoundToEven)},
	{"round", 1, false, true, rounder(math.Round)},
	{"fabs", 1, false, true, rounder(math.Abs)},
	{"sqrt", 1, false, true, rounder(math.Sqrt)}, // rounded twice, which is exact for a root
	{"copysign", 2, false, true, func(k kind, x, y, _ uint64) uint64 { return x&^(1<<31) | y&(1<<31) }},
	{"fma", 3, false, true, func(k kind, x, y, z uint64) uint64 {
		a, b, c := f32(x), f32(y), f32(z)
		if k == kHalf { // the product and the sum are exact to 2^-48 and below 2^33
			d := float64(a)*float64(b) + float64(c)
			if math.IsInf(d, 0) || math.IsNaN(d) {
				return fromF(float32(d))
			}
			return fromF(halfOf(d))
		}
		return fromF(fused(a, b, c))
	}},
}

// halfOf rounds a float64 to a half.
func halfOf(x float64) float32 {
	a := math.Abs(x)
	if a == 0 {
		return float32(x)
	}
	_, e := math.Frexp(a)
	ulp := math.Ldexp(1, max(e-11, -24))
	r := math.RoundToEven(a/ulp) * ulp
	if r >= 65536 {
		r = math.Inf(1)
	}
	return float32(math.Copysign(r, x))
}

// whole is an integer's value.
func whole(k kind, x uint64) *big.Int {
	if k.signed() {
		return big.NewInt(int64(x))
	}
	return new(big.Int).SetUint64(x)
}

func saturated(k kind, x, y uint64, op func(r, x, y *big.Int) *big.Int) uint64 {
	r := op(new(big.Int), whole(k, x), whole(k, y))
	low, high := wrap(0, k), uint64(math.MaxUint64)>>(64-k.bits())
	if k.signed() {
		high >>= 1
		low = ^high
	}
	switch {
	case r.Cmp(whole(k, low)) < 0:
		return low
	case r.Cmp(whole(k, high)) > 0:
		return high
	case r.Sign() < 0:
		return uint64(r.Int64())
	}
	return r.Uint64()
}

func zext(k kind, x uint64) uint64 { return x << (64 - k.bits()) >> (64 - k.bits()) }

func pick(k kind, x, y uint64, lower bool) uint64 {
	if k.float() {
		switch a, b := f32(x), f32(y); {
		case a != a:
			return y
		case b != b:
			return x
		}
	}
	if (compare("<", k, x, y) != 0) == lower {
		return x
	}
	return y
}

func rounder(f func(float64) float64) func(k kind, x, _, _ uint64) uint64 {
	return func(k kind, x, _, _ uint64) uint64 {
		r := float32(f(float64(f32(x))))
		if k == kHalf {
			r = roundHalf(r)
		}
		return fromF(r)
	}
}
