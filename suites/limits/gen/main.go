// Command gen writes the loops that measure how many multiply-adds a processor
// makes at the most: independent chains in registers, enough of them to hide an
// instruction's latency.
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
	Generate()
}
