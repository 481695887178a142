package main

import (
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// AVX-512 helpers.

// vnni adds an instruction that avo does not know: acc += products of a, a vector
// or memory, and b.
func vnni(opcode string, a Op, b, acc Register) {
	Instruction(&ir.Instruction{
		Opcode: opcode, Operands: []Op{a, b, acc}, Inputs: []Op{a, b, acc}, Outputs: []Op{acc}, ISA: []string{"AVX512VNNI"},
	})
}

// vpdpbusd: each 32-bit lane of acc gets the four products of a signed byte of y
// with an unsigned byte of w. Nothing saturates.
func vpdpbusd(y Op, w, acc Register) { vnni("VPDPBUSD", y, w, acc) }

// vpdpwssd: each 32-bit lane of acc gets the two products of signed words.
func vpdpwssd(a Op, b, acc Register) { vnni("VPDPWSSD", a, b, acc) }

// vpdpwssdBroadcast takes one 32-bit pair of words from memory for all lanes.
func vpdpwssdBroadcast(a Mem, b, acc Register) {
	Instruction(&ir.Instruction{
		Opcode: "VPDPWSSD", Suffixes: []string{"BCST"}, Operands: []Op{a, b, acc}, Inputs: []Op{a, b, acc}, Outputs: []Op{acc},
		ISA: []string{"AVX512VNNI"},
	})
}

func zmms(n int) []VecVirtual { return vectors(n, ZMM) }

// zeroZ clears vectors. avo takes VPXORD for a use of what the register held.
func zeroZ(v ...VecVirtual) {
	for _, r := range v {
		Instruction(&ir.Instruction{
			Opcode: "VPXORD", Operands: []Op{r, r, r}, Inputs: []Op{r, r}, Outputs: []Op{r}, CancellingInputs: true, ISA: []string{"AVX512F"},
		})
	}
}

// doubled is the order of a vector's eight lanes with each one twice.
func doubled() Mem { return dwords("doubled", 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7) }

// interleaved takes lanes of two vectors in turn, the second's numbered from 16.
func interleaved() Mem {
	return dwords("interleaved", 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
}

// loadConstant is a constant in a register.
func loadConstant(m Mem, size int) VecVirtual {
	v := map[int]func() VecVirtual{16: XMM, 32: YMM, 64: ZMM}[size]()
	switch size {
	case 64:
		VMOVDQU32(m, v)
	default:
		VMOVDQU(m, v)
	}
	return v
}

// advance adds a constant to a pointer.
func advance(p Register, n int) {
	if bits.Len(uint(n)) < 8 {
		ADDQ(U8(n), p)
	} else {
		ADDQ(U32(n), p)
	}
}

// A tile is 4 weight rows times 8 activation rows, two activation rows ("tokens")
// in a vector: 32-bit lane 2l+i belongs to lane l of token i of the pair. The
// accumulator of row r and pair p is vector 4r+p.
const (
	tileRows   = 4
	tilePairs  = 4
	tileTokens = 2 * tilePairs
)

// tileSum8 adds the lanes of each accumulator, 16 vectors in memory, in HS8's order
// (section 1). The result's vector r/2 has, in 128-bit part p, row r of tokens 2p and 2p+1 in
// lanes 0, 1 for even r and 2, 3 for odd r.
func tileSum8(acc Register) []VecVirtual {
	// Lanes 2l+i: t_l = a_l + a_{l+4} adds the upper half to the lower.
	halves := func(i int) VecVirtual {
		a, b, lo, hi := ZMM(), ZMM(), ZMM(), ZMM()
		VMOVUPS(at(acc, 64*i), a)
		VMOVUPS(at(acc, 64*i+64), b)
		VSHUFF64X2(U8(0x44), b, a, lo)
		VSHUFF64X2(U8(0xee), b, a, hi)
		VADDPS(hi, lo, lo)
		return lo
	}
	var rows []VecVirtual
	for r := range tileRows {
		ab, cd := halves(tilePairs*r), halves(tilePairs*r+2)
		lo, hi := ZMM(), ZMM()
		VSHUFF64X2(U8(0x88), cd, ab, lo) // t0, t1 of each pair
		VSHUFF64X2(U8(0xdd), cd, ab, hi) // t2, t3
		VADDPS(hi, lo, lo)               // t0+t2 of both tokens, t1+t3
		rows = append(rows, lo)
	}
	var sums []VecVirtual
	for r := 0; r < tileRows; r += 2 {
		lo, hi := ZMM(), ZMM()
		VUNPCKLPD(rows[r+1], rows[r], lo)
		VUNPCKHPD(rows[r+1], rows[r], hi)
		VADDPS(hi, lo, lo)
		sums = append(sums, lo)
	}
	return sums
}

// addMinimums adds what is in memory for each row: eight floats, one a token.
func addMinimums(sums []VecVirtual, m Register, off int) {
	for i := range sums {
		v := ZMM()
		VMOVDQU32(dwords("minOrder", 0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15), v)
		VPERMPS(at(m, off+64*i), v, v)
		VADDPS(v, sums[i], sums[i])
	}
}

// tileFunction starts a tile's kernel: it asks for the weights that will be unpacked
// next, a few lines a call, so that memory works while the arithmetic does.
func tileFunction(name, doc string) {
	function(name, "func(acc *float32, panel, packed *byte, blocks, first int, next *byte, lines int)")
	Doc(name+" "+doc, "or with first = 1 to zeros. It prefetches lines of 64 bytes from next on.")
	next, lines := param("next"), param("lines")
	eachVector(lines, 64, func() { PREFETCHT1(at(next, 0)) }, next)
}

// storeTile writes tileSum8's sums to dst[t*dstStride+r]; dstStride is in bytes.
func storeTile(sums []VecVirtual, dst, dstStride Register) {
	// Lanes of a part: row 0 t0, row 0 t1, row 1 t0, row 1 t1 and the same of rows 2
	// and 3; wanted: rows 0..3 of t0, then of t1.
	even, odd := ZMM(), ZMM()
	VSHUFPS(U8(0x88), sums[1], sums[0], even)
	VSHUFPS(U8(0xdd), sums[1], sums[0], odd)
	for p := range tilePairs {
		for _, v := range []VecVirtual{even, odd} {
			if p == 0 {
				VMOVUPS(v.AsX(), at(dst, 0))
			} else {
				VEXTRACTF32X4(U8(p), v, at(dst, 0))
			}
			ADDQ(dstStride, dst)
		}
	}
}

// accumulator is where the i-th accumulator of a tile of so many pairs of tokens is in
// memory, which has room for all pairs.
func accumulator(i, pairs int) int { return 64 * (i/pairs*tilePairs + i%pairs) }

// startTile loads the accumulators of a tile; if the argument first is 1 it clears
// them, and the vectors in memory from more on.
func startTile(m Register, more, size, pairs int) []VecVirtual {
	acc := zmms(tileRows * pairs)
	first, load, start := param("first"), label("load"), label("start")
	TESTQ(first, first)
	JZ(LabelRef(load))
	zeroZ(acc...)
	for off := more; off < more+size; off += 64 {
		VMOVUPS(acc[0], at(m, off))
	}
	JMP(LabelRef(start))
	Label(load)
	for i := range acc {
		VMOVUPS(at(m, accumulator(i, pairs)), acc[i])
	}
	Label(start)
	return acc
}
