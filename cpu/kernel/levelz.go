package kernel

import (
	"maps"
	"math"
	"sync"

	"minfer/engine/gguf"
)

// Level Z, what llama.cpp's AVX-512 build gives, in plain Go: everything that
// differs from the AVX2 level (sections 1 and 5, section 8; bf16: section 16).

var genericZ = sync.OnceValue(func() *Table {
	t := generic
	t.Name = "generic, avx512 bits"
	t.Lanes = 64
	t.Weights = maps.Clone(generic.Weights)
	t.Weights[gguf.F32] = genericWeight(gguf.F32, gguf.F32, dotF32Z)
	t.Weights[gguf.F16] = genericWeight(gguf.F16, gguf.F16, dotF16Z)
	t.Weights[gguf.BF16] = genericWeight(gguf.BF16, gguf.BF16, dotBF16Z)
	t.SoftMax, t.Silu, t.SwiGLU = softMaxZ, siluZ, swigluZ
	t.AttnVF32, t.AttnVF16 = attnVF32Z, attnVF16Z
	return &t
})

// r16 is level Z's horizontal sum: the upper half onto the lower, then hs8.
func r16(a *[16]float32) float32 {
	var b [8]float32
	for i := range b {
		b[i] = a[i] + a[i+8]
	}
	return hs8(&b)
}

// combine64 adds four accumulators of 16 lanes: (A0+A2) + (A1+A3).
func combine64(acc *[64]float32) (a [16]float32) {
	for l := range 16 {
		a[l] = (acc[l] + acc[32+l]) + (acc[16+l] + acc[48+l])
	}
	return a
}

// lanes64 accumulates the whole steps of 64 elements.
func lanes64(w, act []byte, n int, at func(b []byte, i int) float32) float32 {
	var acc [64]float32
	for i := range n &^ 63 {
		acc[i%64] = fma32(at(w, i), at(act, i), acc[i%64])
	}
	lanes := combine64(&acc)
	return r16(&lanes)
}

func dotF32Z(w, act []byte, n int) float32 {
	return tailF32Z(lanes64(w, act, n, f32At), w, act, n&^63, n)
}

// tailF32Z is tailF32 with groups of eight.
func tailF32Z(s float32, w, act []byte, i, n int) float32 {
	for ; i+8 <= n; i += 8 {
		for j := range 8 {
			s += float32(f32At(w, i+j) * f32At(act, i+j))
		}
	}
	for ; i < n; i++ {
		s = fma32(f32At(w, i), f32At(act, i), s)
	}
	return s
}

func dotF16Z(w, act []byte, n int) float32 {
	return tailF16(lanes64(w, act, n, f16At), w, act, n&^63, n)
}

// dotBF16Z has the processor's bf16 instruction: two accumulators of 16 lanes,
// each lane taking a pair of neighbours a step, each accumulator summed by itself.
func dotBF16Z(w, act []byte, n int) float32 {
	var acc [2][16]float32
	for i := 0; i < n&^63; i += 2 {
		lane := &acc[i/32%2][i/2%16]
		*lane = dpBF16(w, act, i, *lane)
	}
	return tailBF16Z(r16(&acc[0]), r16(&acc[1]), w, act, n&^63, n)
}

// dpBF16 is one lane of VDPBF16PS: the odd elements' product, then the even ones';
// subnormal inputs and results are zero.
func dpBF16(w, act []byte, i int, acc float32) float32 {
	flush := func(v float32) float32 {
		if b := math.Float32bits(v); b&0x7f800000 == 0 {
			return math.Float32frombits(b & 0x80000000)
		}
		return v
	}
	acc = flush(fma32(flush(bf16At(w, i+1)), flush(bf16At(act, i+1)), flush(acc)))
	return flush(fma32(flush(bf16At(w, i)), flush(bf16At(act, i)), acc))
}

// tailBF16Z adds the sums of both accumulators and the tail in float64, from +0.
func tailBF16Z(s0, s1 float32, w, act []byte, i, n int) float32 {
	d := 0 + float64(s0) + float64(s1)
	for ; i < n; i++ {
		d += float64(float32(bf16At(w, i) * bf16At(act, i)))
	}
	return float32(d)
}

// vexpZ is the vector exponential: a polynomial of 1 and more, scaled by 2^n with
// one rounding.
func vexpZ(x float32) float32 {
	z := fma32(x, 0x1.715476p+0, 0x1.8p23)
	n := z - 0x1.8p23
	b := fma32(-n, 0x1.7f7d1cp-20, fma32(-n, 0x1.62e4p-1, x))
	u := b * b
	p := fma32(fma32(0x1.0e4020p-7, b, 0x1.573e2ep-5), u, fma32(0x1.555e66p-3, b, 0x1.fffdb6p-2))
	j := fma32(p, u, fma32(0x1.ffffecp-1, b, 1))
	switch a := math.Float32frombits(math.Float32bits(n) & 0x7fffffff); {
	case a > 192 && n <= 0:
		return 0
	case a > 192:
		return float32(math.Inf(1))
	case n != n:
		return n
	}
	// Exact in float64, for |n| <= 192.
	return float32(float64(j) * math.Float64frombits(uint64(int64(n)+1023)<<52))
}

func softMaxZ(x []float32, n int, scale float32) {
	ninf := float32(math.Inf(-1))
	top := ninf
	for i := range n {
		x[i] *= scale
		top = max(top, x[i])
	}
	for i := n; i < len(x); i++ {
		x[i] = ninf
	}
	var sum float64
	full := len(x) &^ 15
	for i := 0; i < full; i += 16 {
		g := (*[16]float32)(x[i:])
		for l, v := range g {
			g[l] = vexpZ(v - top)
		}
		sum += float64(r16(g))
	}
	for i := full; i < len(x); i++ {
		x[i] = expf(x[i] - top)
		sum += float64(x[i])
	}
	inv := float32(1 / sum)
	for i := range x {
		x[i] *= inv
	}
}

func siluZ(dst, x []float32) {
	full := len(x) &^ 15
	for i, v := range x[:full] {
		dst[i] = v / (1 + vexpZ(0-v))
	}
	for i := full; i < len(x); i++ {
		dst[i] = x[i] / (1 + expf(-x[i]))
	}
}

func swigluZ(dst, gate, up []float32) {
	full := len(gate) &^ 15
	for i, v := range gate[:full] {
		dst[i] = float32(v/(1+vexpZ(0-v))) * up[i]
	}
	for i := full; i < len(gate); i++ {
		dst[i] = float32(gate[i]/(1+expf(-gate[i]))) * up[i]
	}
}

func attnVF32Z(dst []float32, v []byte, stride int, p []float32, n int, scratch []float32) {
	attnVZ(dst, v, stride, p[:n], scratch, f32At, func(p float32) float32 { return p })
}

func attnVF16Z(dst []float32, v []byte, stride int, p []float32, n int, scratch []float32) {
	attnVZ(dst, v, stride, p[:n], scratch, f16At, func(p float32) float32 { return halfToFloat(floatToHalf(p)) })
}

// attnVZ is attnV with 64 residues.
func attnVZ(dst []float32, v []byte, stride int, p, scratch []float32, at func(b []byte, i int) float32, round func(float32) float32) {
	d := len(dst)
	scratch = scratch[:64*d]
	clear(scratch)
	for j, pj := range p {
		pj = round(pj)
		row, cell := scratch[j%64*d:][:d], v[j*stride:]
		for c, a := range row {
			row[c] = fma32(at(cell, c), pj, a)
		}
	}
	for c := range dst {
		var acc [64]float32
		for l := range acc {
			acc[l] = scratch[l*d+c]
		}
		lanes := combine64(&acc)
		s := r16(&lanes)
		if len(p)%256 != 0 {
			s += 0
		}
		dst[c] = s
	}
}
