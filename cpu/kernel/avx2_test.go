package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
)

// These tests hold the assembly kernels against the plain Go kernels, which
// define the bits: odd shapes, every bit of the quants, extreme scales, memory
// that ends where a row ends.

// eachLevel runs a test for every level of assembly kernels of this machine, with
// the plain Go kernels of its bits.
func eachLevel(t *testing.T, test func(t *testing.T, tab, ref *Table)) {
	none := true
	for _, l := range []struct{ tab, ref *Table }{{AVX2(), Generic()}, {VNNI(), Generic()}, {AVX512(), GenericZ()}} {
		if l.tab != nil {
			none = false
			t.Run(l.tab.Name, func(t *testing.T) { test(t, l.tab, l.ref) })
		}
	}
	if none {
		t.Skip("this CPU or architecture has no AVX2, FMA and F16C: the assembly kernels are NOT tested here")
	}
	if AVX512() == nil {
		t.Log("no AVX-512 VNNI here: its kernels are NOT tested")
	}
}

// output has n floats, that end where writable memory ends if fence is set and lie
// between guard zones otherwise; intact says whether those are untouched.
func output(t testing.TB, n int, fence bool) (f []float32, intact func() bool) {
	if fence {
		return floatsOf(fenced(t, 4*n)), func() bool { return true }
	}
	return guarded(n)
}

func floatsOf(b []byte) []float32 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}

// placed copies b to memory that ends at a fence, or off bytes behind an aligned
// start.
func placed(t testing.TB, b []byte, fence bool, off int) []byte {
	if fence {
		p := fenced(t, len(b))
		copy(p, b)
		return p
	}
	p := make([]byte, len(b)+64)
	start := int(-uintptr(unsafe.Pointer(&p[0]))&31) + off
	p = p[start : start+len(b) : start+len(b)]
	copy(p, b)
	return p
}

func sameBits(t testing.TB, want, got []float32, format string, args ...any) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		if g := got[i]; math.Float32bits(w) != math.Float32bits(g) && (w == w || g == g) {
			require.Failf(t, "different bits", "%s: element %d is %x (%08x), want %x (%08x)",
				fmt.Sprintf(format, args...), i, g, math.Float32bits(g), w, math.Float32bits(w))
		}
	}
}

// A scaleKind says what a block's scales are like.
type scaleKind int

const (
	randomScales scaleKind = iota // any sign, around 2^-4
	subnormal
	huge
	zeroScales // of both signs
	scaleKinds
)

func (k scaleKind) half(rng *rand.Rand) uint16 {
	sign := uint16(rng.IntN(2)) << 15
	switch k {
	case subnormal:
		return sign | uint16(rng.IntN(0x400))
	case huge:
		return sign | uint16(0x7800+rng.IntN(0x400)) // 2^15 and more, finite
	case zeroScales:
		return sign
	}
	return sign | uint16(0x2800+rng.IntN(0x800))
}

// A quantKind says what a block's integers are like.
type quantKind int

const (
	randomQuants quantKind = iota // every bit
	allMin                        // the smallest signed byte
	allOnes                       // every bit set
	allZero
	quantKinds
)

func (k quantKind) fill(b []byte, rng *rand.Rand) {
	for i := range b {
		switch k {
		case randomQuants:
			b[i] = byte(rng.Uint32())
		case allMin:
			b[i] = 0x80
		case allOnes:
			b[i] = 0xff
		case allZero:
			b[i] = 0
		}
	}
}

// halfScales are the places of the float16 scales in a block of a type.
var halfScales = map[gguf.Type][]int{
	gguf.Q4_0: {0}, gguf.Q5_0: {0}, gguf.Q8_0: {0}, gguf.Q4_1: {0, 2}, gguf.Q5_1: {0, 2}, gguf.Q8_1: {0, 2},
	gguf.Q4_K: {0, 2}, gguf.Q5_K: {0, 2}, gguf.Q6_K: {208},
}

// randomRow is a row of n elements whose blocks have any bits, but no infinity
// and no NaN.
func randomRow(typ gguf.Type, n int, q quantKind, s scaleKind, rng *rand.Rand) []byte {
	b := make([]byte, typ.RowBytes(n))
	size := typ.RowBytes(typ.BlockSize())
	switch typ {
	case gguf.F32:
		for i := range n {
			f := rng.Float32()*2 - 1
			switch s {
			case subnormal:
				f *= 0x1p-120
			case huge:
				f *= 0x1p60
			case zeroScales:
				f *= 0
			}
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(f))
		}
		return b
	case gguf.F16:
		for i := range n {
			binary.LittleEndian.PutUint16(b[2*i:], s.half(rng))
		}
		return b
	case gguf.BF16:
		for i := range n {
			binary.LittleEndian.PutUint16(b[2*i:], floatToBfloat(halfToFloat(s.half(rng))))
		}
		return b
	}
	q.fill(b, rng)
	for blk := 0; blk < len(b); blk += size {
		for _, at := range halfScales[typ] {
			binary.LittleEndian.PutUint16(b[blk+at:], s.half(rng))
		}
		if typ == gguf.Q8_K {
			d := halfToFloat(s.half(rng)) * (1 + rng.Float32()*0x1p-8)
			binary.LittleEndian.PutUint32(b[blk:], math.Float32bits(d))
			for j := range 16 {
				var sum int
				for _, v := range b[blk+4+16*j:][:16] {
					sum += int(int8(v))
				}
				binary.LittleEndian.PutUint16(b[blk+260+2*j:], uint16(sum))
			}
		}
	}
	return b
}

// dotLengths are the row lengths of a type's tests.
func dotLengths(typ gguf.Type) []int {
	switch typ.BlockSize() {
	case 32:
		return []int{32, 64, 96, 224, 896}
	case 256:
		return []int{256, 512, 768, 1792}
	}
	return []int{0, 1, 7, 31, 32, 33, 64, 67, 80, 128, 1000}
}

var weightTypes = []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0,
	gguf.Q4_K, gguf.Q5_K, gguf.Q6_K}

// matrix is rows random rows, stride bytes apart with poison between them.
func matrix(typ gguf.Type, n, rows, stride int, rng *rand.Rand, q quantKind, s scaleKind) []byte {
	size := typ.RowBytes(n)
	m := make([]byte, max(0, (rows-1)*stride+size))
	for i := range m {
		m[i] = 0xff
	}
	for r := range rows {
		copy(m[r*stride:], randomRow(typ, n, q, s, rng))
	}
	return m
}

func TestLevelMatVec(t *testing.T) { eachLevel(t, testLevelMatVec) }

func testLevelMatVec(t *testing.T, tab, ref *Table) {
	for _, typ := range weightTypes {
		t.Run(typ.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(typ), 1))
			act := tab.Weights[typ].Act
			step := 1
			if typ == gguf.F32 {
				step = 4
			}
			check := func(n, rows, gap int, q, aq quantKind, s, as scaleKind, fence bool) {
				t.Helper()
				stride := typ.RowBytes(n) + gap
				off := rng.IntN(32) / step * step
				w := placed(t, matrix(typ, n, rows, stride, rng, q, s), fence, off)
				a := placed(t, randomRow(act, n, aq, as, rng), fence, rng.IntN(32)/step*step)
				want := make([]float32, rows)
				ref.Weights[typ].MatVec(want, w, stride, a, n)
				got, intact := output(t, rows, fence)
				tab.Weights[typ].MatVec(got, w, stride, a, n)
				sameBits(t, want, got, "n=%d rows=%d stride=%d quants=%d,%d scales=%d,%d", n, rows, stride, q, aq, s, as)
				require.True(t, intact())
			}
			for _, n := range dotLengths(typ) {
				for _, rows := range []int{0, 1, 2, 3, 4, 5, 7, 8, 11} {
					check(n, rows, 0, randomQuants, randomQuants, randomScales, randomScales, false)
					check(n, rows, 3*step, randomQuants, randomQuants, randomScales, randomScales, true)
				}
			}
			n := dotLengths(typ)[3]
			for q := range quantKinds {
				for aq := range quantKinds {
					for s := range scaleKinds {
						check(n, 5, 0, q, aq, s, randomScales, false)
						check(n, 5, 0, q, aq, randomScales, s, false)
					}
				}
			}
		})
	}
}

func TestLevelMatVec4(t *testing.T) { eachLevel(t, testLevelMatVec4) }

func testLevelMatVec4(t *testing.T, tab, ref *Table) {
	for _, typ := range weightTypes {
		t.Run(typ.String(), func(t *testing.T) {
			mv4 := tab.Weights[typ].MatVec4
			if mv4 == nil {
				return
			}
			rng := rand.New(rand.NewPCG(uint64(typ), 2))
			act := tab.Weights[typ].Act
			check := func(n, rows, gap int, q, aq quantKind, s, as scaleKind, fence bool) {
				t.Helper()
				stride, aStride, dStride := typ.RowBytes(n)+gap, act.RowBytes(n)+gap, rows+gap
				w := placed(t, matrix(typ, n, rows, stride, rng, q, s), fence, 4*rng.IntN(8))
				a := placed(t, matrix(act, n, 4, aStride, rng, aq, as), fence, 4*rng.IntN(8))
				size := 0
				if rows > 0 {
					size = 3*dStride + rows
				}
				want := make([]float32, size)
				got, intact := output(t, size, fence)
				for i := range want {
					want[i], got[i] = 7, 7 // between the rows
				}
				for i := range min(4, 4*rows) {
					ref.Weights[typ].MatVec(want[i*dStride:][:rows], w, stride, a[i*aStride:], n)
				}
				mv4(got, dStride, w, stride, rows, a, aStride, n)
				sameBits(t, want, got, "n=%d rows=%d stride=%d quants=%d,%d scales=%d,%d", n, rows, stride, q, aq, s, as)
				require.True(t, intact())
			}
			for _, n := range dotLengths(typ) {
				for _, rows := range []int{0, 1, 2, 3, 4, 5, 8} {
					check(n, rows, 0, randomQuants, randomQuants, randomScales, randomScales, false)
					check(n, rows, 12, randomQuants, randomQuants, randomScales, randomScales, true)
				}
			}
			n := dotLengths(typ)[3]
			for q := range quantKinds {
				for aq := range quantKinds {
					for s := range scaleKinds {
						check(n, 3, 0, q, aq, s, randomScales, false)
						check(n, 3, 0, q, aq, randomScales, s, false)
					}
				}
			}
		})
	}
}
