package libm

import (
	"flag"
	"math"
	"math/big"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var exhaustive = flag.Bool("exhaustive", false, "check the functions of one argument at every float32")

// ulps is the distance of got from the exact value in units in the last place of
// the float32 nearest to it.
func ulps(got float32, want float64) float64 {
	w := float32(want)
	switch {
	case want != want:
		if got != got {
			return 0
		}
		return math.Inf(1)
	case math.IsInf(float64(w), 0) || math.IsInf(float64(got), 0):
		// At the overflow threshold the two may round apart: count from the largest
		// finite value.
		if got == w {
			return 0
		}
		g, v := float64(got), want
		if math.IsInf(g, 0) {
			g = math.Copysign(0x1p128, g)
		}
		if math.IsInf(v, 0) {
			return math.Inf(1)
		}
		return math.Abs(g-v) / 0x1p104
	}
	e := math.Ilogb(want) - 23
	if want == 0 || e < -149 {
		e = -149
	}
	return math.Abs(float64(got)-want) / math.Ldexp(1, e)
}

var unary = []struct {
	name string
	f    func(float32) float32
	ref  func(float64) float64
}{
	{"rsqrt", Rsqrt, func(x float64) float64 { return 1 / math.Sqrt(x) }},
	{"exp", Exp, math.Exp},
	{"exp2", Exp2, math.Exp2},
	{"exp10", Exp10, func(x float64) float64 { return math.Exp(x * math.Ln10) }},
	{"log", Log, math.Log},
	{"log2", Log2, math.Log2},
	{"log10", Log10, math.Log10},
	{"sin", Sin, math.Sin},
	{"cos", Cos, math.Cos},
	{"tan", Tan, math.Tan},
	{"tanh", Tanh, math.Tanh},
	{"sinh", Sinh, math.Sinh},
	{"cosh", Cosh, math.Cosh},
	{"asin", Asin, math.Asin},
	{"acos", Acos, math.Acos},
	{"atan", Atan, math.Atan},
	{"erf", Erf, math.Erf},
}

// TestUnaryBounds walks over all float32 with a stride that is prime, so that
// every exponent is sampled densely.
func TestUnaryBounds(t *testing.T) {
	stride := uint64(16411)
	if *exhaustive {
		stride = 1
	}
	for _, u := range unary {
		t.Run(u.name, func(t *testing.T) {
			bound, worst, at := Bounds[u.name], 0.0, float32(0)
			require.NotZero(t, bound)
			check := func(x float32) {
				if d := ulps(u.f(x), u.ref(float64(x))); d > worst {
					worst, at = d, x
				}
			}
			// Each processor takes a range.
			parts := uint64(runtime.GOMAXPROCS(0))
			found := make([]float32, parts)
			var wg sync.WaitGroup
			for k := range parts {
				wg.Go(func() {
					worst := 0.0
					for b := k << 32 / parts; b < (k+1)<<32/parts; b += stride {
						x := math.Float32frombits(uint32(b))
						if d := ulps(u.f(x), u.ref(float64(x))); d > worst {
							worst, found[k] = d, x
						}
					}
				})
			}
			wg.Wait()
			for _, x := range found {
				check(x)
			}
			for _, x := range []float32{0, 1, 2, 0.5, 1e-45, 0x1p-126, 0x1p-8, 0x1p24, 88.72284, -103.97, 127.99999, math.MaxFloat32, math.Pi / 2, math.Pi} {
				for k := -3; k <= 3; k++ {
					y := math.Float32frombits(math.Float32bits(x) + uint32(k))
					check(y)
					check(-y)
				}
			}
			t.Logf("worst %.4f ulp at %g (%#08x)", worst, at, math.Float32bits(at))
			require.LessOrEqual(t, worst, bound, "at %g: got %g, want %g", at, u.f(at), u.ref(float64(at)))
		})
	}
}

func TestBinaryBounds(t *testing.T) {
	check := func(name string, f func(x, y float32) float32, ref func(x, y float64) float64) {
		worst := 0.0
		var wx, wy float32
		s := uint64(1)
		next := func() uint32 {
			s = s*6364136223846793005 + 1442695040888963407
			return uint32(s >> 32)
		}
		for range 300000 {
			x, y := math.Float32frombits(next()), math.Float32frombits(next())
			if next()&1 == 0 { // near 1, where pow does not overflow
				x = math.Float32frombits(0x3f000000 + next()&0xffffff)
				y = float32(int32(next())) * 0x1p-24
			}
			if d := ulps(f(x, y), ref(float64(x), float64(y))); d > worst {
				worst, wx, wy = d, x, y
			}
		}
		t.Logf("%s: worst %.4f ulp at %g, %g", name, worst, wx, wy)
		require.LessOrEqual(t, worst, Bounds[name], "%s(%g, %g): got %g, want %g", name, wx, wy, f(wx, wy), ref(float64(wx), float64(wy)))
	}
	check("pow", Pow, math.Pow)
	check("atan2", Atan2, math.Atan2)
}

// TestSpecialCases compares signs of zero, infinities and NaN with C's rules as
// the standard library has them.
func TestSpecialCases(t *testing.T) {
	vals := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1.5, -1.5, inf, -inf, nan, 1e-45, -1e-45, 16777216, 16777217, 3e38, -3e38}
	same := func(name string, got float32, want float64, args ...float32) {
		w := float32(want)
		if w != w {
			require.True(t, got != got, "%s%v: got %g, want NaN", name, args, got)
			return
		}
		require.Equal(t, math.Float32bits(w)>>31, math.Float32bits(got)>>31, "%s%v: sign of %g", name, args, got)
		if w == 0 || math.IsInf(float64(w), 0) {
			require.Equal(t, w, got, "%s%v", name, args)
		}
	}
	for _, x := range vals {
		for _, u := range unary {
			if u.name != "rsqrt" || x != 0 {
				same(u.name, u.f(x), u.ref(float64(x)), x)
			}
		}
		for _, y := range vals {
			same("pow", Pow(x, y), math.Pow(float64(x), float64(y)), x, y)
			same("atan2", Atan2(x, y), math.Atan2(float64(x), float64(y)), x, y)
		}
	}
	require.True(t, Rsqrt(-inf) != Rsqrt(-inf))
	require.Equal(t, inf, Rsqrt(0))
}

// TestTwoOverPi computes the constant of the argument reduction from Machin's
// formula.
func TestTwoOverPi(t *testing.T) {
	const prec = 400
	arccot := func(n int64) *big.Float {
		sum := new(big.Float).SetPrec(prec)
		term := new(big.Float).SetPrec(prec).Quo(big.NewFloat(1).SetPrec(prec), new(big.Float).SetPrec(prec).SetInt64(n))
		sq := new(big.Float).SetPrec(prec).SetInt64(n * n)
		for k := int64(1); k < 700; k += 2 {
			d := new(big.Float).SetPrec(prec).Quo(term, new(big.Float).SetPrec(prec).SetInt64(k))
			if k%4 == 1 {
				sum.Add(sum, d)
			} else {
				sum.Sub(sum, d)
			}
			term.Quo(term, sq)
		}
		return sum
	}
	p := new(big.Float).SetPrec(prec).Mul(big.NewFloat(16), arccot(5))
	p.Sub(p, new(big.Float).SetPrec(prec).Mul(big.NewFloat(4), arccot(239)))
	x := new(big.Float).SetPrec(prec).Quo(big.NewFloat(1).SetPrec(prec), p) // (2/pi)/2
	x.SetMantExp(x, 256)
	n, _ := x.Int(nil)
	mask := new(big.Int).SetUint64(math.MaxUint64)
	for i := 3; i >= 0; i-- {
		require.Equal(t, new(big.Int).And(n, mask).Uint64(), twoOverPi[i], "word %d", i)
		n.Rsh(n, 64)
	}
	// The pieces of pi/2 add up to it.
	half := new(big.Float).SetPrec(prec).Quo(p, big.NewFloat(2))
	for _, c := range []float64{piOver2A, piOver2B, piOver2C} {
		half.Sub(half, big.NewFloat(c))
	}
	rest, _ := half.Float64()
	require.Less(t, math.Abs(rest), 0x1p-109)
}
