// Command gen writes the loops that measure what a processor does at the most: how
// many multiply-adds, in independent chains in registers, enough of them to hide an
// instruction's latency; and how fast it reads memory.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// chains is the number of accumulators: two instructions a cycle with a latency of
// up to five.
const chains = 12

// loop emits a function that runs a body n times. make gives a vector register.
func loop(name, doc string, make func() reg.VecVirtual, body func(acc, x, y, t reg.Register)) {
	TEXT(name, NOSPLIT, "func(n int)")
	Doc(doc)
	n := Load(Param("n"), GP64())
	x, y, t := make(), make(), make()
	var acc []reg.VecVirtual
	for range chains {
		acc = append(acc, make())
	}
	for _, r := range append([]reg.VecVirtual{x, y}, acc...) {
		zero(r)
	}
	Label("turn")
	for _, a := range acc {
		body(a, x, y, t)
	}
	DECQ(n)
	JNZ(LabelRef("turn"))
	VZEROUPPER()
	RET()
}

func zero(r reg.VecVirtual) {
	if r.Size() == 64 {
		// avo takes VPXORD for a use of what the register held.
		Instruction(&ir.Instruction{
			Opcode: "VPXORD", Operands: []Op{r, r, r}, Inputs: []Op{r, r}, Outputs: []Op{r}, CancellingInputs: true, ISA: []string{"AVX512F"},
		})
	} else {
		VPXOR(r, r, r)
	}
}

// turnBytes is what a loop that reads reads in a turn.
const turnBytes = 512

// reading emits a function that makes n turns and gives the exclusive or of all
// 64-bit words. It asks for memory so many bytes ahead, where that is not 0.
func reading(name, doc string, vector func() reg.VecVirtual, ahead int) {
	TEXT(name, NOSPLIT, "func(p *byte, n int) uint64")
	Doc(doc)
	p, n := Load(Param("p"), GP64()), Load(Param("n"), GP64())
	var acc []reg.VecVirtual
	for range 4 {
		acc = append(acc, vector())
		zero(acc[len(acc)-1])
	}
	size := int(acc[0].Size())
	xor := func(m Op, r reg.VecVirtual) {
		if size == 64 {
			VPXORQ(m, r, r)
		} else {
			VPXOR(m, r, r)
		}
	}
	Label("turn")
	for at := 0; at < turnBytes; at += size {
		if ahead > 0 && at%64 == 0 {
			PREFETCHT0(Mem{Base: p, Disp: at + ahead})
		}
		xor(Mem{Base: p, Disp: at}, acc[at/size%len(acc)])
	}
	ADDQ(U32(turnBytes), p)
	DECQ(n)
	JNZ(LabelRef("turn"))
	for _, a := range acc[1:] {
		xor(a, acc[0])
	}
	if size == 64 {
		half := YMM()
		VEXTRACTI64X4(Imm(1), acc[0], half)
		acc[0] = acc[0].AsY().(reg.VecVirtual)
		VPXOR(half, acc[0], acc[0])
	}
	a, b := acc[0].AsX(), XMM()
	VEXTRACTI128(Imm(1), acc[0], b)
	VPXOR(b, a, a)
	VPEXTRQ(Imm(1), a, n)
	x := GP64()
	VMOVQ(a, x)
	XORQ(n, x)
	Store(x, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

func main() {
	ConstraintExpr("amd64")
	fma := func(a, x, y, _ reg.Register) { VFMADD231PS(x, y, a) }
	loop("floatsAVX2", "floatsAVX2 makes 96 multiply-adds of floats a turn.", YMM, fma)
	loop("floatsAVX512", "floatsAVX512 makes 192 multiply-adds of floats a turn.", ZMM, fma)
	loop("bytesAVX2", "bytesAVX2 makes 384 multiply-adds of bytes a turn.", YMM, func(a, x, y, t reg.Register) {
		VPMADDUBSW(x, y, t)
		VPMADDWD(t, x, t)
		VPADDD(t, a, a)
	})
	loop("bytesVNNI", "bytesVNNI makes 768 multiply-adds of bytes a turn.", ZMM, func(a, x, y, _ reg.Register) {
		Instruction(&ir.Instruction{ // avo does not know it
			Opcode: "VPDPBUSD", Operands: []Op{x, y, a}, Inputs: []Op{x, y, a}, Outputs: []Op{a}, ISA: []string{"AVX512VNNI"},
		})
	})
	const turns = " gives the exclusive or of the 64-bit words of n turns"
	reading("readAVX2", "readAVX2"+turns+".", YMM, 0)
	reading("readAVX2Ahead", "readAVX2Ahead"+turns+". It prefetches.", YMM, 1536)
	reading("readAVX512", "readAVX512"+turns+".", ZMM, 0)
	reading("readAVX512Ahead", "readAVX512Ahead"+turns+". It prefetches.", ZMM, 1536)
	Generate()
}
