package cuda

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// u is half a step of a float32 of size 1.
const u = 0x1p-24

// The two parts of a float as a factor, tcb2 and tc32 of device/tensor.cuh. A tensor
// core leaves out the lower 13 bits of a factor in TF32.
func pairParts(x float32) (hi, lo float32) {
	bfloat := func(x float32) float32 {
		b := math.Float32bits(x)
		b += 0x7fff + b>>16&1
		return math.Float32frombits(b &^ 0xffff)
	}
	hi = bfloat(x)
	return hi, bfloat(x - hi)
}

func floatParts(x float32) (hi, lo float32) {
	upper := func(x float32) float32 { return math.Float32frombits(math.Float32bits(x) & 0xffffe000) }
	hi = upper(x)
	return hi, upper(x - hi)
}

// factorErrors are those of the products of two factors in two parts each: with l the
// lower part and e what is left out of a factor, both relative to it, a product is off
// by l l' + e + e' - e e'.
type factorErrors struct {
	most      float64 // bound of all products
	worst     float32 // the factor whose square is off by most
	mean, rms float64 // of products of factors whose logarithms are spread evenly
}

func errorsOf(parts func(float32) (hi, lo float32)) factorErrors {
	var f factorErrors
	var left, square, l1, e1, l2, e2, le float64
	// Powers of two and signs change nothing in a relative error.
	for i := range uint32(1 << 23) {
		x := math.Float32frombits(1<<23*127 | i)
		hi, lo := parts(x)
		a := float64(x)
		l, e := float64(lo)/a, (a-float64(hi)-float64(lo))/a
		// |l l'| is at most half of l*l + l'*l'.
		f.most = max(f.most, l*l+2*math.Abs(e))
		if s := math.Abs(l*l + 2*e - e*e); s > square {
			square, f.worst = s, x
		}
		left = max(left, math.Abs(e))
		p := 0x1p-23 / (a * math.Ln2)
		l1, e1, l2, e2, le = l1+p*l, e1+p*e, l2+p*l*l, e2+p*e*e, le+p*l*e
	}
	f.most += left * left
	f.mean = l1*l1 + 2*e1
	f.rms = math.Sqrt(l2*l2 + 2*e2 + 2*e1*e1 + 4*l1*le)
	return f
}

// TestTensorErrors holds the errors of products that kernels are promised, and those
// that the bounds of the GEMM and of the prefill kernels name, against those of every
// factor there is.
func TestTensorErrors(t *testing.T) {
	// What the parts are copies of.
	require.Contains(t, tensorText, `asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r.hi) : "f"(a.y), "f"(a.x));`)
	require.Contains(t, tensorText, `float x = bits(bits(a.x) & 0xffffe000u), y = bits(bits(a.y) & 0xffffe000u);`)
	for _, c := range []struct {
		name          string
		parts         func(float32) (hi, lo float32)
		promised      float64
		mean, rms, sd float64 // in u
	}{
		{"pairs", pairParts, pairsError, 0, 74, 74},
		{"float", floatParts, floatError, 4.6, 5.9, 3.7},
	} {
		f := errorsOf(c.parts)
		t.Logf("%s: off by %.2fu at most, at %v; mean %.3gu, RMS %.3gu", c.name, f.most/u, f.worst, f.mean/u, f.rms/u)
		require.LessOrEqual(t, f.most, c.promised, c.name)
		require.Greater(t, f.most, 0.99*c.promised, c.name)
		// A product that is off by so much.
		hi, lo := c.parts(f.worst)
		exact := float64(f.worst) * float64(f.worst)
		made := float64(hi)*float64(hi) + 2*float64(hi)*float64(lo)
		require.InEpsilon(t, c.promised, math.Abs(made-exact)/exact, 0.02, c.name)

		require.InDelta(t, c.mean, f.mean/u, 0.05, c.name)
		require.InEpsilon(t, c.rms, f.rms/u, 0.01, c.name)
		require.InEpsilon(t, c.sd, math.Sqrt(f.rms*f.rms-f.mean*f.mean)/u, 0.01, c.name)
	}
}

// What a device makes of a promise.
func TestTensorOfPromise(t *testing.T) {
	for _, c := range []struct {
		major   int
		soften  bool
		promise float64
		want    Tensor
	}{
		{9, false, 0, TensorFloat}, {9, false, 0x1p-16, TensorFloat}, {9, false, 0x1p-15, TensorPairs}, {8, false, 1, TensorPairs},
		{7, false, 1, NoTensor}, {9, true, 1, NoTensor},
	} {
		d := &Device{driver: &Driver{attrs: attributes{major: c.major}}, o: DeviceOptions{SoftMatrices: c.soften}}
		require.Equal(t, c.want, d.tensor(c.promise), "%+v", c)
	}
}
