package main

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// memories are the steps on memory that have a handler.
var memories = map[string]bool{}

// A load's operands: the destination, the varying part of the offsets, the
// uniform part, the object (its pointer, its size). The step behind it has the
// rest: see lane.Access.
var (
	activeMask = Mem{Base: R8, Disp: 8}
	stopped    = Mem{Base: R8, Disp: 16}
	objPtr     = Mem{Base: RCX}
	objSize    = Mem{Base: RCX, Disp: 8}
	accDisp    = Mem{Base: R9}
	accBytes   = Mem{Base: R9, Disp: 4}
	accDelta   = Mem{Base: R9, Disp: 8}
)

func accReg(k int) Mem { return Mem{Base: R9, Disp: 4 + 4*k} }

// memoryHandler writes the handler of a step that takes two places.
func memoryHandler(name string, body func()) {
	memories[name] = true
	TEXT("m"+name+level, attr.NOSPLIT|attr.NOFRAME, "func()")
	body()
	ADDQ(U8(20), R9)
	fetch()
	RET()
}

// loadHandler writes the handler of a load. The body jumps to bail, before it has
// changed anything, where it can't do it: Go does that one.
func loadHandler(name string, body func()) {
	memoryHandler(name, body)
	Label("bail")
	MOVQ(R9, stopped)
	XORL(EAX, EAX)
	RET()
}

// uniformLoads read one element for all lanes: not wider than 64 bits.
func uniformLoads() {
	for _, o := range []struct {
		name string
		op   func(m Op)
	}{
		{"ReadOnce8", func(m Op) { MOVBLZX(m, EAX) }},
		{"ReadOnce16", func(m Op) { MOVWLZX(m, EAX) }},
		{"ReadOnce32", func(m Op) { MOVL(m, EAX) }},
		{"ReadOnce64", func(m Op) { MOVQ(m, RAX) }},
	} {
		loadHandler(o.name, func() {
			MOVQ(objSize, RAX)
			MOVL(accBytes, EBX)
			SUBQ(RBX, RAX)
			JLT(LabelRef("bail"))
			MOVLQSX(accDisp, RBX)
			ADDQ(b, RBX)
			CMPQ(RBX, RAX)
			JHI(LabelRef("bail"))
			ADDQ(objPtr, RBX)
			MOVL(accDelta, R12L)
			o.op(Mem{Base: RBX, Index: R12, Scale: 1})
			MOVQ(RAX, d)
		})
	}
}
