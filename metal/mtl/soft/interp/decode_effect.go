package interp

import (
	"minfer/metal/msl/ir"
)

// effect emits what touches memory or other lanes.
func (d *decoder) effect(i *ir.Instr) {
	switch i.Op {
	case ir.Load:
		d.load(i)
	case ir.Store:
		d.store(i)
	case ir.AtomicLoad, ir.AtomicStore, ir.AtomicRMW, ir.AtomicCAS:
		d.atomic(i)
	case ir.Grid:
		v := i.Res[0]
		r := d.newReg(d.classOf(ir.I32, d.varying[v]))
		op := opGridUniform
		if d.varying[v] {
			op = opGrid
		}
		d.emit(instr{op: op, dst: uint32(r), imm: i.Imm})
		d.define(v, r)
	case ir.SimdReduce, ir.SimdScan, ir.SimdShuffle, ir.SimdVote, ir.SimdFirst, ir.SimdActive:
		d.collective(i)
	case ir.TgBarrier:
		d.emit(instr{op: opTgBarrier, x: uint32(i.Imm)})
	case ir.SgBarrier:
		d.emit(instr{op: opSgBarrier, x: uint32(i.Imm)})
	case ir.Fence:
		d.emit(instr{op: opFence, x: uint32(i.Imm)})
	case ir.SgFill, ir.SgDiag:
		v := i.Res[0]
		r := d.newReg(cSg)
		a := access{elem: d.f.Types[v].SgElem(), pos: i.Pos}
		in := instr{op: opSgFill, dst: uint32(r)}
		if i.Op == ir.SgDiag {
			in.op = opSgDiag
		}
		if d.varying[i.Args[0]] {
			a.uni = false
			in.a = uint32(d.vecOf(i.Args[0]))
		} else {
			a.uni = true
			in.a = uint32(d.scalarOf(i.Args[0]))
		}
		in.x = d.addAccess(a)
		d.emit(in)
		d.define(v, r)
	case ir.SgLoad:
		v := i.Res[0]
		r := d.newReg(cSg)
		x := d.sgAccess(i, i.Args[0], i.Args[1:])
		d.emit(instr{op: opSgLoad, dst: uint32(r), x: x})
		d.define(v, r)
	case ir.SgStore:
		x := d.sgAccess(i, i.Args[1], i.Args[2:])
		d.emit(instr{op: opSgStore, a: uint32(d.vals[i.Args[0]].reg), x: x})
	case ir.SgMMA:
		v := i.Res[0]
		r := d.newReg(cSg)
		d.emit(instr{op: opSgMMA, dst: uint32(r), a: uint32(d.vals[i.Args[0]].reg), b: uint32(d.vals[i.Args[1]].reg),
			c: uint32(d.vals[i.Args[2]].reg), x: uint32(d.f.Types[v].SgElem())})
		d.define(v, r)
	case ir.SgElem:
		v := i.Res[0]
		r := d.newReg(cVec)
		d.emit(instr{op: opSgElem, dst: uint32(r), a: uint32(d.vals[i.Args[0]].reg), imm: i.Imm, x: uint32(d.f.Types[v])})
		d.define(v, r)
	case ir.SgWith:
		v := i.Res[0]
		r := d.newReg(cSg)
		d.emit(instr{op: opSgWith, dst: uint32(r), a: uint32(d.vals[i.Args[0]].reg), b: uint32(d.vecOf(i.Args[1])), imm: i.Imm,
			x: uint32(d.f.Types[v].SgElem())})
		d.define(v, r)
	default:
		d.fail(i, "operation "+i.Op.String())
	}
}

// addAccess registers an access whose registers the next instruction refers to.
func (d *decoder) addAccess(a access) uint32 {
	d.touch(int(a.su))
	d.touch(int(a.sv))
	for _, r := range a.regs {
		d.touch(int(r))
	}
	for k := range a.sg {
		d.touch(int(a.sg[k]))
		d.touch(int(a.sgVarying[k]))
	}
	if d.fast && a.obj > 0 && !d.isAlloca(a.obj) {
		d.slotOf(a.obj)
	}
	d.p.acc = append(d.p.acc, a)
	return uint32(len(d.p.acc) - 1)
}

// address starts the description of an access through pointer v.
func (d *decoder) address(i *ir.Instr, v ir.Value) access {
	m := i.Mem
	a := access{
		obj: d.root[v], elem: m.Elem, size: m.Elem.Size(), count: m.Count, align: max(m.Align, 1),
		uni: !d.varying[v], mem: m, pos: i.Pos, kind: i.Op,
		dev: m.Space == ir.Device || m.Space == ir.Constant,
	}
	if a.obj >= 0 {
		a.dev = a.obj >= d.paramObj(0) && a.obj < d.staticObj(0) && d.f.Params[a.obj-1].Kind == ir.BufferParam
	}
	x := d.vals[v]
	switch {
	case x.isAddr:
		a.su, a.sv, a.disp = uint32(x.su), uint32(x.sv), x.disp
	case x.isConst:
		a.disp = int64(x.bits)
	case d.varying[v]:
		a.sv = uint32(x.reg)
	default:
		a.su = uint32(x.reg)
	}
	return a
}

func (d *decoder) load(i *ir.Instr) {
	if g := d.groups[i]; g != nil {
		if g.first == i {
			d.loadGroup(g)
		}
		return
	}
	a := d.address(i, i.Args[0])
	varying := d.varying[i.Res[0]]
	for _, v := range i.Res {
		t := d.f.Types[v]
		a.regs = append(a.regs, uint32(d.newReg(d.classOf(t, varying))))
	}
	op := opLoad
	if !varying {
		op = opLoadUniform
	}
	regs := append([]uint32{}, a.regs...)
	d.emit(instr{op: op, x: d.addAccess(a)})
	for k, v := range i.Res {
		d.define(v, int(regs[k]))
	}
}

func (d *decoder) store(i *ir.Instr) {
	a := d.address(i, i.Args[0])
	a.write = true
	for _, v := range i.Args[1:] {
		a.regs = append(a.regs, uint32(d.storeReg(v)))
	}
	d.emit(instr{op: opStore, x: d.addAccess(a)})
}

// storeReg is a value's lanes as memory gets them: pointers keep their object.
func (d *decoder) storeReg(v ir.Value) int {
	if d.f.Types[v] == ir.Ptr {
		return d.pointerAs(v, true, true)
	}
	return d.vecOf(v)
}

func (d *decoder) atomic(i *ir.Instr) {
	a := d.address(i, i.Args[0])
	a.atomic = ir.AtomicOp(i.Imm)
	a.write = i.Op != ir.AtomicLoad
	in := instr{op: opAtomic}
	for k, v := range i.Args[1:] {
		switch k {
		case 0:
			in.a = uint32(d.vecOf(v))
		case 1:
			in.b = uint32(d.vecOf(v))
		}
	}
	if len(i.Res) > 0 {
		c := cVec
		if d.f.Types[i.Res[0]] == ir.I64 {
			c = cWide
		}
		in.dst = uint32(d.newReg(c))
	}
	in.x = d.addAccess(a)
	d.emit(in)
	if len(i.Res) > 0 {
		d.define(i.Res[0], int(in.dst))
	}
}

// sgAccess describes a matrix load or store: args are stride, column, row,
// transpose.
func (d *decoder) sgAccess(i *ir.Instr, ptr ir.Value, args []ir.Value) uint32 {
	a := d.address(i, ptr)
	a.write = i.Op == ir.SgStore
	for k, v := range args {
		if d.varying[v] {
			a.sgVarying[k] = uint32(d.vecOf(v))
		} else {
			a.sg[k] = uint32(d.scalarOf(v))
		}
	}
	return d.addAccess(a)
}

func (d *decoder) collective(i *ir.Instr) {
	v := i.Res[0]
	t := d.f.Types[v]
	c := collective{typ: t, op: i.Imm & 0xff, quad: i.Imm&ir.QuadScope != 0, excl: i.Imm&ir.ScanExclusive != 0, args: len(i.Args)}
	if len(i.Args) > 0 {
		c.typ = d.f.Types[i.Args[0]]
	}
	varying := d.varying[v]
	var in instr
	if len(i.Args) > 0 {
		in.a = uint32(d.vecOf(i.Args[0]))
	}
	if len(i.Args) > 1 {
		if c.uni = !d.varying[i.Args[1]]; c.uni {
			in.b = uint32(d.scalarOf(i.Args[1]))
		} else {
			in.b = uint32(d.vecOf(i.Args[1]))
		}
	}
	if len(i.Args) > 3 {
		in.c = uint32(d.vecOf(i.Args[2]))
		// The modulo is uniform in any correct program; lane 0 of the vector otherwise.
		c.mod = uint32(d.operand(i.Args[3], d.varying[i.Args[3]]))
		d.touch(int(c.mod))
	}
	switch i.Op {
	case ir.SimdReduce:
		in.op = opReduce
		if !varying {
			in.op = opReduceUniform
		}
	case ir.SimdScan:
		in.op = opScan
	case ir.SimdShuffle:
		in.op = opShuffle
	case ir.SimdVote:
		in.op = opVote
	case ir.SimdFirst:
		in.op = opFirst
	case ir.SimdActive:
		in.op = opActive
	}
	r := d.newReg(d.classOf(t, varying))
	in.dst = uint32(r)
	d.p.coll = append(d.p.coll, c)
	in.x = uint32(len(d.p.coll) - 1)
	d.emit(in)
	d.define(v, r)
}
