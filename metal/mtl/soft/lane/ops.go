package lane

import (
	"math"
	"math/bits"
)

// One lane of each operation. The generator (gen/plain) makes the 32-lane loops
// and the scalar forms from these by name and signature; they define what the
// assembly must compute.

func add32(x, y uint32) uint32    { return x + y }
func sub32(x, y uint32) uint32    { return x - y }
func mul32(x, y uint32) uint32    { return x * y }
func and32(x, y uint32) uint32    { return x & y }
func or32(x, y uint32) uint32     { return x | y }
func xor32(x, y uint32) uint32    { return x ^ y }
func shl32(x, y uint32) uint32    { return x << (y & 31) }
func lshr32(x, y uint32) uint32   { return x >> (y & 31) }
func ashr32(x, y int32) int32     { return x >> (uint32(y) & 31) }
func smin32(x, y int32) int32     { return min(x, y) }
func smax32(x, y int32) int32     { return max(x, y) }
func umin32(x, y uint32) uint32   { return min(x, y) }
func umax32(x, y uint32) uint32   { return max(x, y) }
func smulhi32(x, y int32) int32   { return int32(int64(x) * int64(y) >> 32) }
func umulhi32(x, y uint32) uint32 { return uint32(uint64(x) * uint64(y) >> 32) }
func clz32(x uint32) uint32       { return uint32(bits.LeadingZeros32(x)) }
func ctz32(x uint32) uint32       { return uint32(bits.TrailingZeros32(x)) }
func popcount32(x uint32) uint32  { return uint32(bits.OnesCount32(x)) }
func reverse32(x uint32) uint32   { return bits.Reverse32(x) }

func add64(x, y uint64) uint64   { return x + y }
func sub64(x, y uint64) uint64   { return x - y }
func mul64(x, y uint64) uint64   { return x * y }
func and64(x, y uint64) uint64   { return x & y }
func or64(x, y uint64) uint64    { return x | y }
func xor64(x, y uint64) uint64   { return x ^ y }
func shl64(x, y uint64) uint64   { return x << (y & 63) }
func lshr64(x, y uint64) uint64  { return x >> (y & 63) }
func ashr64(x, y int64) int64    { return x >> (uint64(y) & 63) }
func smin64(x, y int64) int64    { return min(x, y) }
func smax64(x, y int64) int64    { return max(x, y) }
func umin64(x, y uint64) uint64  { return min(x, y) }
func umax64(x, y uint64) uint64  { return max(x, y) }
func clz64(x uint64) uint64      { return uint64(bits.LeadingZeros64(x)) }
func ctz64(x uint64) uint64      { return uint64(bits.TrailingZeros64(x)) }
func popcount64(x uint64) uint64 { return uint64(bits.OnesCount64(x)) }
func reverse64(x uint64) uint64  { return bits.Reverse64(x) }

func umulhi64(x, y uint64) uint64 {
	hi, _ := bits.Mul64(x, y)
	return hi
}

func smulhi64(x, y int64) int64 {
	hi, _ := bits.Mul64(uint64(x), uint64(y))
	return int64(hi) - x>>63&y - y>>63&x
}

// Division by zero gives 0, MIN/-1 wraps.

func sdiv32(x, y int32) int32 {
	if y == 0 {
		return 0
	}
	return x / y
}

func udiv32(x, y uint32) uint32 {
	if y == 0 {
		return 0
	}
	return x / y
}

func srem32(x, y int32) int32 {
	if y == 0 {
		return 0
	}
	return x % y
}

func urem32(x, y uint32) uint32 {
	if y == 0 {
		return 0
	}
	return x % y
}

func sdiv64(x, y int64) int64 {
	if y == 0 {
		return 0
	}
	return x / y
}

func udiv64(x, y uint64) uint64 {
	if y == 0 {
		return 0
	}
	return x / y
}

func srem64(x, y int64) int64 {
	if y == 0 {
		return 0
	}
	return x % y
}

func urem64(x, y uint64) uint64 {
	if y == 0 {
		return 0
	}
	return x % y
}

// Several operations in one, each with the bits of one after the other.

func andToF(x, y uint32) float32              { return u32tof(x & y) }
func orToF(x, y uint32) float32               { return u32tof(x | y) }
func shlAnd(x, n, y uint32) uint32            { return shl32(x, n) & y }
func lshrAnd(x, n, y uint32) uint32           { return lshr32(x, n) & y }
func ashrAnd(x int32, n, y uint32) uint32     { return uint32(ashr32(x, int32(n))) & y }
func andOr(x, y, z uint32) uint32             { return x&y | z }
func lshrAndToF(x, n, y uint32) float32       { return u32tof(lshrAnd(x, n, y)) }
func ashrAndToF(x int32, n, y uint32) float32 { return u32tof(ashrAnd(x, n, y)) }
func s8tof(x uint32) float32                  { return float32(int8(x)) }

func fmaHalf(x float32, h uint32, z float32) float32 { return fma(x, f16tof(h&0xffff), z) }

// Comparisons.

func eq32(x, y uint32) bool  { return x == y }
func ne32(x, y uint32) bool  { return x != y }
func slt32(x, y int32) bool  { return x < y }
func sle32(x, y int32) bool  { return x <= y }
func ult32(x, y uint32) bool { return x < y }
func ule32(x, y uint32) bool { return x <= y }
func eq64(x, y uint64) bool  { return x == y }
func ne64(x, y uint64) bool  { return x != y }
func slt64(x, y int64) bool  { return x < y }
func sle64(x, y int64) bool  { return x <= y }
func ult64(x, y uint64) bool { return x < y }
func ule64(x, y uint64) bool { return x <= y }
func feq(x, y float32) bool  { return x == y }
func fne(x, y float32) bool  { return x != y }
func flt(x, y float32) bool  { return x < y }
func fle(x, y float32) bool  { return x <= y }

func select32(c bool, x, y uint32) uint32 {
	if c {
		return x
	}
	return y
}

func select64(c bool, x, y uint64) uint64 {
	if c {
		return x
	}
	return y
}

// maskSelect works on bits.
func maskSelect(c, x, y uint64) uint64 { return x&c | y&^c }

func copy32(x uint32) uint32 { return x }
func copy64(x uint64) uint64 { return x }

// Floats: round to nearest even, subnormals kept.

func fadd(x, y float32) float32 { return x + y }
func fsub(x, y float32) float32 { return x - y }
func fmul(x, y float32) float32 { return x * y }
func fdiv(x, y float32) float32 { return x / y }

// fma rounds x*y+z once: the product is exact in float64, the sum is rounded to
// odd, so that the second rounding to float32 can't go wrong.
func fma(x, y, z float32) float32 { return float32(addOdd(float64(x)*float64(y), float64(z))) }

// addOdd is a+b rounded to odd: where inexact, the neighbour whose last bit is 1.
func addOdd(a, b float64) float64 {
	s := a + b
	if math.IsNaN(s) || math.IsInf(s, 0) {
		return s
	}
	// The exact error of the sum.
	t := s - a
	e := (a - (s - t)) + (b - t)
	if e == 0 {
		return s
	}
	if bits := math.Float64bits(s); bits&1 == 0 {
		// s is even and inexact: go one step towards the exact sum.
		if (e > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		return math.Float64frombits(bits)
	}
	return s
}

func frem(x, y float32) float32 { return float32(math.Mod(float64(x), float64(y))) }

func fmin(x, y float32) float32 {
	if x < y || y != y {
		return x
	}
	return y
}

func fmax(x, y float32) float32 {
	if x > y || y != y {
		return x
	}
	return y
}

func copysign(x, y uint32) uint32 { return x&0x7fffffff | y&0x80000000 }

func floor(x float32) float32 { return float32(math.Floor(float64(x))) }
func ceil(x float32) float32  { return float32(math.Ceil(float64(x))) }
func trunc(x float32) float32 { return float32(math.Trunc(float64(x))) }
func rint(x float32) float32  { return float32(math.RoundToEven(float64(x))) }
func round(x float32) float32 { return float32(math.Round(float64(x))) }

// sqrt is correctly rounded: 53 >= 2*24+2.
func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// Conversions between integers. Narrow values are zero-extended in their lanes.

func sext8(x uint32) uint32   { return uint32(int32(int8(x))) }
func sext16(x uint32) uint32  { return uint32(int32(int16(x))) }
func zext64(x uint32) uint64  { return uint64(x) }
func sext64(x int32) int64    { return int64(x) }
func trunc64(x uint64) uint32 { return uint32(x) }

func bool32(c bool) uint32 {
	if c {
		return 1
	}
	return 0
}

func bool64(c bool) uint64 {
	if c {
		return 1
	}
	return 0
}

// Float to integer truncates, saturates, and gives 0 for NaN.

func ftosClamp(x float32, lo, hi float64) int64 {
	f := float64(x)
	switch {
	case f != f:
		return 0
	case f <= lo:
		return int64(lo)
	case f >= hi:
		return int64(hi)
	}
	return int64(f)
}

func ftos32(x float32) int32 { return int32(ftosClamp(x, math.MinInt32, math.MaxInt32)) }
func ftou32(x float32) uint32 {
	return uint32(ftosClamp(x, 0, math.MaxUint32))
}
func ftos8(x float32) uint32  { return uint32(uint8(ftosClamp(x, math.MinInt8, math.MaxInt8))) }
func ftou8(x float32) uint32  { return uint32(ftosClamp(x, 0, math.MaxUint8)) }
func ftos16(x float32) uint32 { return uint32(uint16(ftosClamp(x, math.MinInt16, math.MaxInt16))) }
func ftou16(x float32) uint32 { return uint32(ftosClamp(x, 0, math.MaxUint16)) }

func ftos64(x float32) int64 {
	switch {
	case x != x:
		return 0
	case x < -1<<63:
		return math.MinInt64
	case x >= 1<<63:
		return math.MaxInt64
	}
	return int64(x)
}

func ftou64(x float32) uint64 {
	switch {
	case !(x > 0):
		return 0
	case x >= 1<<64:
		return math.MaxUint64
	case x >= 1<<63:
		return uint64(int64(x-1<<63)) + 1<<63
	}
	return uint64(int64(x))
}

func s32tof(x int32) float32  { return float32(x) }
func u32tof(x uint32) float32 { return float32(int64(x)) }
func s64tof(x int64) float32  { return float32(x) }

func u64tof(x uint64) float32 {
	if x < 1<<63 {
		return float32(int64(x))
	}
	// Halve, keeping a sticky bit for the rounding.
	return 2 * float32(int64(x>>1|x&1))
}

func u64tobf16(x uint64) uint32 {
	if x < 1<<24 {
		return ftobf16(float32(int64(x)))
	}
	// Keep 24 bits, the last one sticky (round to odd), then round once.
	shift := bits.Len64(x) - 24
	sticky := x&(1<<shift-1) != 0
	x >>= shift
	if sticky {
		x |= 1
	}
	return ftobf16(float32(int64(x)) * math.Float32frombits(uint32(127+shift)<<23))
}

func s64tobf16(x int64) uint32 {
	if x < 0 {
		return u64tobf16(-uint64(x)) | 0x8000
	}
	return u64tobf16(uint64(x))
}

// Half and bfloat: a lane holds the 16 bits.

func f16tof(h uint32) float32 {
	sign := h & 0x8000 << 16
	exp := h >> 10 & 31
	frac := h & 0x3ff
	switch exp {
	case 0:
		f := float32(int32(frac)) * 0x1p-24
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 31:
		if frac != 0 {
			frac |= 0x200
		}
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

func ftof16(x float32) uint32 {
	b := math.Float32bits(x)
	sign := b >> 16 & 0x8000
	a := b & 0x7fffffff
	switch {
	case a > 0x7f800000: // NaN: keep the top of the payload, quiet
		return sign | 0x7e00 | a>>13&0x3ff
	case a >= 0x477ff000: // 65520 and above round to infinity
		return sign | 0x7c00
	case a < 0x38800000: // below 2^-14: subnormal, a multiple of 2^-24
		// Adding 0.5 puts the last kept bit at 2^-24 and rounds to nearest even.
		f := math.Float32frombits(a) + 0.5
		return sign | (math.Float32bits(f) - 0x3f000000)
	}
	a += 0xfff + a>>13&1
	return sign | (a>>13 - 112<<10)
}

func bf16tof(x uint32) float32 { return math.Float32frombits(x << 16) }

func ftobf16(x float32) uint32 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return b>>16 | 0x40
	}
	return (b + 0x7fff + b>>16&1) >> 16
}

// fma16: all products and sums of halves that matter are exact in float64 or
// far from a tie, so one rounding from float64, made by rounding to odd first.
func fma16(x, y, z uint32) uint32 {
	return ftof16(oddFloat32(addOdd(float64(f16tof(x))*float64(f16tof(y)), float64(f16tof(z)))))
}

func fmabf16(x, y, z uint32) uint32 {
	return ftobf16(oddFloat32(addOdd(float64(bf16tof(x))*float64(bf16tof(y)), float64(bf16tof(z)))))
}

// oddFloat32 rounds to float32 to odd, the step before a rounding to fewer bits.
func oddFloat32(x float64) float32 {
	f := float32(x)
	d := float64(f)
	if d == x || x != x || math.IsInf(x, 0) {
		return f
	}
	b := math.Float32bits(f)
	if math.IsInf(d, 0) {
		return math.Float32frombits(b - 1)
	}
	if b&1 == 1 {
		return f
	}
	// f is even: the odd neighbour on the side of x.
	if (math.Abs(d) < math.Abs(x)) || f == 0 {
		b++
		if f == 0 && x < 0 {
			b |= 0x80000000
		}
	} else {
		b--
	}
	return math.Float32frombits(b)
}
