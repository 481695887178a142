package exact

import "math"

// DotBF16 is ggml's bf16 dot of values that are exact in bf16. The tail's
// products round to float32 and are added in float64, at both levels.
//
// Level H has four accumulators of eight lanes like the f16 dot, but combines
// them as (A0+A2) + (A1+A3) and then sums by HS8. Level Z uses the processor's
// bf16 instruction: two accumulators of 16 lanes, each lane taking a pair of
// neighbours a step, and each accumulator summed by itself. The lanes' sums are
// added to a float64 zero, which takes the sign off a -0.
func DotBF16(l Level, x, y []float32) float32 {
	want("dot bf16", "length of y", len(y), len(x))
	if l == Z {
		return dotBF16Z(x, y)
	}
	var acc [4][8]float32
	done := len(x) / 32 * 32
	for i := range done {
		a, lane := i/8%4, i%8
		acc[a][lane] = FMA(x[i], y[i], acc[a][lane])
	}
	for lane := range 8 {
		acc[0][lane] = (acc[0][lane] + acc[2][lane]) + (acc[1][lane] + acc[3][lane])
	}
	return tailBF16(x[done:], y[done:], sumHS8(acc[0][:]))
}

func dotBF16Z(x, y []float32) float32 {
	var acc [2][16]float32
	done := len(x) / 64 * 64
	for i := 0; i < done; i += 2 {
		a, lane := i/32%2, i/2%16
		acc[a][lane] = dp(x[i:i+2], y[i:i+2], acc[a][lane])
	}
	return tailBF16(x[done:], y[done:], sumR16(acc[0][:]), sumR16(acc[1][:]))
}

// dp is one lane of VDPBF16PS: the odd elements' product is added first, then
// the even ones', each with one rounding to nearest even; denormal inputs and
// results are zero, whatever MXCSR says.
func dp(x, y []float32, acc float32) float32 {
	flush := func(v float32) float32 {
		if math.Abs(float64(v)) < 0x1p-126 {
			return float32(math.Copysign(0, float64(v)))
		}
		return v
	}
	acc = flush(FMA(flush(x[1]), flush(y[1]), flush(acc)))
	return flush(FMA(flush(x[0]), flush(y[0]), acc))
}

func tailBF16(x, y []float32, lanes ...float32) float32 {
	sum := 0.0
	for _, v := range lanes {
		sum += float64(v)
	}
	for i := range x {
		sum += float64(float32(x[i] * y[i]))
	}
	return float32(sum)
}
