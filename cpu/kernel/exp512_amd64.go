package kernel

import "math"

//go:generate go run ./gen -family exp512 -out exp_avx512_amd64.s -stubs exp_avx512_amd64.go

// exponentials512 is what uses one level's exponential, 16 elements at a time. tail
// is the length of the groups whose rest takes libm's.
type exponentials512 struct {
	tail       int
	expSum     func(x *float32, top float32, vectors int) float64
	siluAsm    func(dst, x *float32, vectors int)
	swigluAsm  func(dst, x, up *float32, vectors int)
	plainSum   func(x []float32, top float32) float64 // of whole groups
	plainSilu  func(dst, x []float32)
	plainGated func(dst, gate, up []float32)
}

var (
	exponentialsH = exponentials512{8, expSumH512, siluH512, swigluH512, expSumOf8, silu, swiglu}
	exponentialsZ = exponentials512{16, expSumZ512, siluZ512, swigluZ512, nil, siluZ, swigluZ}
)

// expSumOf8 is a group of eight behind the last 16, if there is one.
func expSumOf8(x []float32, top float32) (sum float64) {
	for ; len(x) >= 8; x = x[8:] {
		g := (*[8]float32)(x)
		for l, v := range g {
			g[l] = vexp(v - top)
		}
		sum += float64(hs8(g))
	}
	return sum
}

func (e *exponentials512) softMax(x []float32, n int, s float32) {
	ninf := float32(math.Inf(-1))
	top := scaleMaxAVX2(at(x[:n]), s, vectors(n))
	for i := n &^ 7; i < n; i++ {
		x[i] *= s
		top = max(top, x[i])
	}
	for i := n; i < len(x); i++ {
		x[i] = ninf
	}
	sum := e.expSum(at(x), top, len(x)/16)
	full := len(x) / e.tail * e.tail
	if rest := len(x) &^ 15; rest < full {
		sum += e.plainSum(x[rest:full], top)
	}
	for i := full; i < len(x); i++ {
		x[i] = expf(x[i] - top)
		sum += float64(x[i])
	}
	scaleVector(x, x, float32(1/sum))
}

func (e *exponentials512) silu(dst, x []float32) {
	n := len(x)
	dst = dst[:n]
	e.siluAsm(at(dst), at(x), n/16)
	full := n &^ 15
	e.plainSilu(dst[full:], x[full:])
}

func (e *exponentials512) swiglu(dst, gate, up []float32) {
	n := len(gate)
	dst, up = dst[:n], up[:n]
	e.swigluAsm(at(dst), at(gate), at(up), n/16)
	full := n &^ 15
	e.plainGated(dst[full:], gate[full:], up[full:])
}
