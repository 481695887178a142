package kernel

import (
	"math"
	"unsafe"

	"minfer/engine/gguf"
)

// vectors is how many whole vectors of eight n elements hold. Pointers are taken
// with at, which is nil for an empty slice: the assembly then touches nothing.
func vectors(n int) int { return n / 8 }

func at[T any](s []T) *T { return unsafe.SliceData(s) }

// pairwise makes Add and Mul.
func pairwise(asm func(dst, a, b *float32, vectors int), tail func(dst, a, b []float32)) func(dst, a, b []float32) {
	return func(dst, a, b []float32) {
		n := len(a)
		dst, b = dst[:n], b[:n]
		asm(at(dst), at(a), at(b), vectors(n))
		full := n &^ 7
		tail(dst[full:], a[full:], b[full:])
	}
}

func scaleVector(dst, x []float32, s float32) {
	n := len(x)
	dst = dst[:n]
	scaleAVX2(at(dst), at(x), s, vectors(n))
	full := n &^ 7
	scale(dst[full:], x[full:], s)
}

func rmsNormVector(dst, x, w []float32, d int, eps float32) {
	if d <= 0 {
		return
	}
	rows := len(x) / d
	dst = dst[:rows*d]
	if w != nil {
		w = w[:d]
	}
	for r := 0; r < rows; {
		var sums [4]float64
		n, full := 1, 0
		if r+4 <= rows {
			n, full = 4, d&^3
			sumSquares4AVX2(&sums, &x[r*d], d, full/4)
		} else {
			full = d &^ 7
			sums[0] = sumSquares1AVX2(&x[r*d], full/8)
		}
		for _, sum := range sums[:n] {
			row, out := x[r*d:(r+1)*d], dst[r*d:(r+1)*d]
			for _, v := range row[full:] {
				sum += float64(float32(v * v))
			}
			mean := float32(sum / float64(d))
			scaleRow(out, row, w, 1/float32(math.Sqrt(float64(mean+eps))))
			r++
		}
	}
}

// scaleRow: dst = x * s, then times w unless that is nil.
func scaleRow(dst, x, w []float32, s float32) {
	if w == nil {
		scaleVector(dst, x, s)
		return
	}
	scaleMulAVX2(at(dst), at(x), at(w), s, vectors(len(x)))
	for i := len(x) &^ 7; i < len(x); i++ {
		dst[i] = float32(x[i]*s) * w[i]
	}
}

func softMaxVector(x []float32, n int, s float32) {
	ninf := float32(math.Inf(-1))
	top := scaleMaxAVX2(at(x[:n]), s, vectors(n))
	for i := n &^ 7; i < n; i++ {
		x[i] *= s
		top = max(top, x[i])
	}
	for i := n; i < len(x); i++ {
		x[i] = ninf
	}
	sum := expSumAVX2(at(x), top, vectors(len(x)))
	for i := len(x) &^ 7; i < len(x); i++ {
		x[i] = expf(x[i] - top)
		sum += float64(x[i])
	}
	scaleVector(x, x, float32(1/sum))
}

// siluTail is what silu and swiglu do past the last whole vector.
func siluTail(v float32) float32 { return v / (1 + expf(-v)) }

func siluVector(dst, x []float32) {
	n := len(x)
	dst = dst[:n]
	siluAVX2(at(dst), at(x), vectors(n))
	for i := n &^ 7; i < n; i++ {
		dst[i] = siluTail(x[i])
	}
}

func swigluVector(dst, gate, up []float32) {
	n := len(gate)
	dst, up = dst[:n], up[:n]
	swigluAVX2(at(dst), at(gate), at(up), vectors(n))
	for i := n &^ 7; i < n; i++ {
		dst[i] = siluTail(gate[i]) * up[i]
	}
}

func ropeNeoxVector(dst, x []float32, headDim int, cs []float32) {
	half, heads := len(cs)/2, 0
	if headDim > 0 {
		heads = len(x) / headDim
	}
	if heads == 0 || half%8 != 0 || len(cs) > headDim {
		ropeNeox(dst, x, headDim, cs)
		return
	}
	dst = dst[:heads*headDim]
	ropeNeoxAVX2(at(dst), at(x), headDim, heads, at(cs), half)
	copyUnrotated(dst, x, headDim, 2*half)
}

func ropeNormVector(dst, x []float32, headDim int, cs []float32) {
	heads := 0
	if headDim > 0 {
		heads = len(x) / headDim
	}
	if heads == 0 || len(cs)%8 != 0 || len(cs) > headDim {
		ropeNorm(dst, x, headDim, cs)
		return
	}
	dst = dst[:heads*headDim]
	ropeNormAVX2(at(dst), at(x), headDim, heads, at(cs), len(cs)/8)
	copyUnrotated(dst, x, headDim, len(cs))
}

// copyUnrotated copies the channels behind the rotated ones of every head.
func copyUnrotated(dst, x []float32, headDim, rotated int) {
	if rotated == headDim {
		return
	}
	for h := 0; h+headDim <= len(dst); h += headDim {
		copy(dst[h+rotated:h+headDim], x[h+rotated:h+headDim])
	}
}

type (
	narrowAsm func(dst *byte, src *float32, n int)
	widenAsm  func(dst *float32, src *byte, n int)
)

// row makes an activation conversion: by blocks, or for types without by vectors
// with a tail.
func (asm narrowAsm) row(t gguf.Type, tail func(dst []byte, src []float32)) func(dst []byte, src []float32) {
	block := max(8, t.BlockSize())
	return func(dst []byte, src []float32) {
		n := len(src) / block
		full := n * block
		rest := dst[t.RowBytes(full):t.RowBytes(len(src)/t.BlockSize()*t.BlockSize())]
		asm(at(dst), at(src), n)
		if tail != nil {
			tail(rest, src[full:])
		}
	}
}

// row makes a dequantiser of a half-width type.
func (asm widenAsm) row(load func(b []byte, i int) float32) func(dst []float32, row []byte) {
	return func(dst []float32, row []byte) {
		n := len(dst)
		row = row[:2*n]
		asm(at(dst), at(row), vectors(n))
		for i := n &^ 7; i < n; i++ {
			dst[i] = load(row, i)
		}
	}
}

// floatBytesOf views floats as bytes: amd64 is little endian as rows are.
func floatBytesOf(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(at(f))), 4*len(f))
}

func copyFloats(dst []byte, src []float32) { copy(dst[:4*len(src)], floatBytesOf(src)) }

func widenF32(dst []float32, row []byte) { copy(floatBytesOf(dst), row[:4*len(dst)]) }

type attnCellsAsm func(acc *float32, d int, v *byte, stride int, p *float32, cells, vectors int)

// attnV holds the kernels of one cache type; slow takes the channels behind the
// last whole vector.
type attnV struct {
	size          int
	cells, cells4 attnCellsAsm
	slow          func(dst []float32, v []byte, stride int, p []float32, n int, scratch []float32)
}

func (a attnV) sum(dst []float32, v []byte, stride int, p []float32, n int, scratch []float32) {
	d := len(dst) &^ 7
	if d != len(dst) {
		a.slow(dst[d:], v[a.size*d:], stride, p, n, scratch)
	}
	if d == 0 {
		return
	}
	v = v[:(n-1)*stride+a.size*d]
	acc := scratch[:32*d]
	clear(acc)
	p = p[:n]
	j := 0
	for ; j+128 <= n; j += 128 {
		a.cells4(&acc[0], d, &v[j*stride], stride, &p[j], 32, d/8)
	}
	for ; j < n; j += 32 {
		a.cells(&acc[0], d, &v[j*stride], stride, &p[j], min(32, n-j), d/8)
	}
	var pad float32
	if n%256 == 0 {
		pad = float32(math.Copysign(0, -1))
	}
	attnCombineAVX2(&dst[0], &acc[0], d, pad, d/8)
}

// prefetchBytes asks for the lines of b.
func prefetchBytes(b []byte) {
	if len(b) > 0 {
		prefetchLines(&b[0], (len(b)+63)/64)
	}
}
