package main

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Constants: read-only data of this file, written once for each name.

var constants = map[string]Mem{}

func constant(name string, data []byte) Mem {
	if m, ok := constants[name]; ok {
		return m
	}
	m := GLOBL(name, attr.RODATA|attr.NOPTR)
	for i := 0; i < len(data); i += 8 {
		DATA(i, U64(binary.LittleEndian.Uint64(data[i:])))
	}
	constants[name] = m
	return m
}

// bytes32 is a vector of one byte, words16 of one 16-bit word, dwords8 of one
// 32-bit word, floats8 of one float32.
func bytes32(name string, v byte) Mem {
	b := make([]byte, 32)
	for i := range b {
		b[i] = v
	}
	return constant(name, b)
}

func words16(name string, v uint16) Mem {
	b := make([]byte, 32)
	for i := 0; i < 32; i += 2 {
		binary.LittleEndian.PutUint16(b[i:], v)
	}
	return constant(name, b)
}

func dwords(name string, v ...uint32) Mem {
	b := make([]byte, 4*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint32(b[4*i:], x)
	}
	return constant(name, b)
}

func dwords8(name string, v uint32) Mem { return dwords(name, v, v, v, v, v, v, v, v) }

func floats8(name string, v float32) Mem { return dwords8(name, math.Float32bits(v)) }

// labels

var labelCount int

// label makes a label of its own for every loop.
func label(name string) string {
	labelCount++
	return fmt.Sprintf("%s%d", name, labelCount)
}

func at(p Register, disp int) Mem { return Mem{Base: p, Disp: disp} }

func xmms(n int) []VecVirtual { return vectors(n, XMM) }
func ymms(n int) []VecVirtual { return vectors(n, YMM) }

func vectors(n int, make func() VecVirtual) (v []VecVirtual) {
	for range n {
		v = append(v, make())
	}
	return v
}

func zero(v ...VecVirtual) {
	for _, r := range v {
		VXORPS(r, r, r)
	}
}

// eachRow writes a loop over the rows of a weight matrix: width rows at a time,
// then one by one. body gets the number of rows; after it w and dst step over
// them. rows counts down.
func eachRow(width int, rows, w, stride, dst Register, body func(n int)) {
	done := label("done")
	for _, n := range []int{width, 1} {
		loop, next := label("rows"), label("next")
		Label(loop)
		CMPQ(rows, U8(n))
		JLT(LabelRef(next))
		body(n)
		for range n {
			ADDQ(stride, w)
		}
		ADDQ(U8(4*n), dst)
		SUBQ(U8(n), rows)
		JMP(LabelRef(loop))
		Label(next)
		if width == 1 {
			break
		}
	}
	Label(done)
	VZEROUPPER()
	RET()
}

// rowPointers are the starts of n rows from w on.
func rowPointers(n int, w, stride Register) []Register {
	p := make([]Register, n)
	for r := range p {
		p[r] = GP64()
		if r == 0 {
			MOVQ(w, p[r])
		} else {
			LEAQ(Mem{Base: p[r-1], Index: stride, Scale: 1}, p[r])
		}
	}
	return p
}

// fold adds the upper four lanes of a to the lower: t_i = a_i + a_{i+4}.
func fold(a VecVirtual) Register {
	t := XMM()
	VEXTRACTF128(U8(1), a, t)
	VADDPS(t, a.AsX(), t)
	return t
}

// hs is the end of the horizontal sum HS8 (section 1) for up to four folded
// vectors: (t0+t2) + (t1+t3), vector i in lane i of the result.
func hs(t []Register) Register {
	pair := func(a, b Register) Register {
		lo, hi := XMM(), XMM()
		VUNPCKLPD(b, a, lo)
		VUNPCKHPD(b, a, hi)
		VADDPS(hi, lo, lo) // a0+a2, a1+a3, b0+b2, b1+b3
		return lo
	}
	n := len(t)
	ab := pair(t[0], t[min(1, n-1)])
	cd := ab
	if n > 2 {
		cd = pair(t[2], t[3])
	}
	s := XMM()
	VHADDPS(cd, ab, s)
	return s
}

// ha is the end of HA8: (t0+t1) + (t2+t3).
func ha(t []Register) Register {
	n := len(t)
	ab, cd, s := XMM(), XMM(), XMM()
	VHADDPS(t[min(1, n-1)], t[0], ab) // a0+a1, a2+a3, b0+b1, b2+b3
	if n > 2 {
		VHADDPS(t[3], t[2], cd)
	} else {
		cd = ab
	}
	VHADDPS(cd, ab, s)
	return s
}

func folds(acc []VecVirtual) (t []Register) {
	for _, a := range acc {
		t = append(t, fold(a))
	}
	return t
}

// storeLanes writes the first n (1, 2 or 4) floats of x.
func storeLanes(x Register, n int, m Mem) {
	switch n {
	case 1:
		VMOVSS(x, m)
	case 2:
		VMOVLPS(x, m)
	case 4:
		VMOVUPS(x, m)
	default:
		panic(fmt.Sprintf("storeLanes: %d lanes, want 1, 2 or 4", n))
	}
}

// function starts a kernel. Its pointers do not outlive the call.
func function(name, signature string) {
	TEXT(name, attr.NOSPLIT, signature)
	Pragma("noescape")
}

// prefetchRow asks for what four rows later lies at p + disp. The hardware follows
// one stream a page, and rows of a model are shorter than that: without this a
// matrix that comes from memory is read up to a third slower (q8_0, 896 wide: 19
// instead of 28 GB/s). A prefetch beyond the matrix does nothing.
func prefetchRow(p, stride Register, disp int) {
	PREFETCHT0(Mem{Base: p, Index: stride, Scale: 4, Disp: disp})
}

// How far ahead of its use a stream is prefetched: to the second-level cache as early
// as memory needs, across the page at whose end the hardware's own prefetching stops,
// and again, once it is there, to the first. Either alone is slower. What waits for
// memory holds one of the few buffers through which the first-level cache gets
// everything, so what waits for the second-level cache must not come at the last moment.
const (
	streamNear = 1536
	streamFar  = 4608
)

// prefetchStream does so for as many bytes, where the stream is at p.
func prefetchStream(p Register, bytes int) {
	for line := 0; line < bytes; line += 64 {
		PREFETCHT0(at(p, streamNear+line))
		PREFETCHT1(at(p, streamFar+line))
	}
}
