package kernel

import (
	"sync"

	"minfer/engine/gguf"
)

// The forms of the assembly dots; n counts blocks, or steps of 32 elements.
type (
	matVecAsm  func(dst *float32, w *byte, stride, rows int, act *byte, n int)
	matVec4Asm func(dst *float32, dstStride int, w *byte, stride, rows int, act *byte, actStride, n int)
	packAsm    func(dst *float32, act *byte, actStride, n int)
	packedAsm  func(dst *float32, dstStride int, w *byte, stride, rows int, packed *float32, n int)
	// A tailFunc adds elements i..n-1 to a sum.
	tailFunc func(s float32, w, act []byte, i, n int) float32
)

// blocks makes the kernel of a type with blocks.
func (asm matVecAsm) blocks(t, act gguf.Type) MatVecFunc {
	size, wBytes, aBytes := t.BlockSize(), t.RowBytes(t.BlockSize()), act.RowBytes(t.BlockSize())
	return func(dst []float32, w []byte, stride int, act []byte, n int) {
		n /= size
		if n == 0 || len(dst) == 0 {
			clear(dst)
			return
		}
		w = w[:(len(dst)-1)*stride+n*wBytes]
		act = act[:n*aBytes]
		asm(&dst[0], &w[0], stride, len(dst), &act[0], n)
	}
}

func (asm matVec4Asm) blocks(t, act gguf.Type) MatVec4Func {
	size, wBytes, aBytes := t.BlockSize(), t.RowBytes(t.BlockSize()), act.RowBytes(t.BlockSize())
	return func(dst []float32, dstStride int, w []byte, stride, rows int, act []byte, actStride, n int) {
		if rows == 0 {
			return
		}
		dst = dst[:3*dstStride+rows]
		n /= size
		if n == 0 {
			clearRows(dst, dstStride, rows)
			return
		}
		w = w[:(rows-1)*stride+n*wBytes]
		act = act[:3*actStride+n*aBytes]
		asm(&dst[0], dstStride, &w[0], stride, rows, &act[0], actStride, n)
	}
}

// clearRows: the dots of four rows of no elements.
func clearRows(dst []float32, dstStride, rows int) {
	for t := range 4 {
		clear(dst[t*dstStride:][:rows])
	}
}

// steps makes the kernel of a plain type.
func (asm matVecAsm) steps(t gguf.Type, tail tailFunc) MatVecFunc { return asm.stepsOf(32, t, tail) }

// stepsOf does for an assembly kernel with steps of another length, a power of two.
func (asm matVecAsm) stepsOf(step int, t gguf.Type, tail tailFunc) MatVecFunc {
	size := t.RowBytes(1)
	return func(dst []float32, w []byte, stride int, act []byte, n int) {
		if n < step || len(dst) == 0 {
			clear(dst)
		} else {
			w, act := w[:(len(dst)-1)*stride+n*size], act[:n*size]
			asm(&dst[0], &w[0], stride, len(dst), &act[0], n/step)
		}
		if full := n &^ (step - 1); full != n {
			for i, s := range dst {
				dst[i] = tail(s, w[i*stride:], act, full, n)
			}
		}
	}
}

// packed is memory for packed activation rows.
var packed = sync.Pool{New: func() any { return new([]float32) }}

// rows makes the kernel of a type whose activation rows are packed first, perStep
// floats for each block or 32 elements. tail is nil for types with blocks.
func (asm packedAsm) rows(t, act gguf.Type, pack packAsm, perStep int, tail tailFunc) MatVec4Func {
	return func(dst []float32, dstStride int, w []byte, stride, rows int, acts []byte, actStride, n int) {
		if rows == 0 {
			return
		}
		dst = dst[:3*dstStride+rows]
		steps, full := n/32, n&^31
		if steps == 0 {
			clearRows(dst, dstStride, rows)
		} else {
			w, a := w[:(rows-1)*stride+t.RowBytes(full)], acts[:3*actStride+act.RowBytes(full)]
			y := packed.Get().(*[]float32)
			if len(*y) < perStep*steps {
				*y = make([]float32, perStep*steps)
			}
			pack(&(*y)[0], &a[0], actStride, steps)
			asm(&dst[0], dstStride, &w[0], stride, rows, &(*y)[0], steps)
			packed.Put(y)
		}
		if full == n {
			return
		}
		for t := range 4 {
			for i, s := range dst[t*dstStride:][:rows] {
				dst[t*dstStride+i] = tail(s, w[i*stride:], acts[t*actStride:], full, n)
			}
		}
	}
}
