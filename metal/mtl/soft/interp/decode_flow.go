package interp

import (
	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/san"
)

func (d *decoder) region(r *ir.Region) {
	if d.fast {
		d.findGroups(r)
	}
	for _, i := range r.Instrs {
		if d.err != nil {
			return
		}
		d.curPos = i.Pos
		d.count++
		d.instr(i)
	}
}

func (d *decoder) instr(i *ir.Instr) {
	switch i.Op {
	case ir.If:
		d.ifElse(i)
	case ir.Loop:
		d.loop(i)
	case ir.Block:
		d.block(i)
	case ir.Yield:
		// The If's emission reads it.
	case ir.Break, ir.Continue:
		d.leave(i)
	case ir.Return:
		d.jump(instr{op: opReturn}, d.join())
	default:
		d.plainInstr(i)
	}
}

// results gives registers to the results of an instruction with a body. They are
// alive from here on: arms and exits write them.
func (d *decoder) results(i *ir.Instr) []int {
	var rs []int
	for _, v := range i.Res {
		r := d.newReg(d.classOf(d.f.Types[v], d.varying[v]))
		d.touch(r)
		rs = append(rs, r)
	}
	return rs
}

func (d *decoder) defineResults(i *ir.Instr, rs []int) {
	for k, v := range i.Res {
		// Keep the register alive up to here even where no exit is left.
		d.touch(rs[k])
		d.define(v, rs[k])
	}
}

// exitMoves copies the arguments of a Yield, Break or Continue to registers of
// the target's values vs.
func (d *decoder) exitMoves(t *ir.Instr, vs []ir.Value, rs []int, masked bool) {
	var ms []move
	for k, v := range vs {
		ms = append(ms, d.move(rs[k], t.Args[k], d.f.Types[v], d.varying[v], d.root[v]))
	}
	d.moves(ms, masked)
}

func yields(r *ir.Region) *ir.Instr {
	if t := terminator(r); t != nil && t.Op == ir.Yield {
		return t
	}
	return nil
}

func (d *decoder) ifElse(i *ir.Instr) {
	rs := d.results(i)
	cond := d.scalarOf(i.Args[0])
	then, els := i.Body[0], i.Body[1]
	pos := d.curPos
	use := san.UseBranch
	for _, r := range i.Body {
		if t := terminator(r); t != nil && (t.Op == ir.Break || t.Op == ir.Continue) && t.Target.Op == ir.Loop {
			use = san.UseTrip
		}
	}
	if !d.varying[i.Args[0]] {
		elseLabel, end := d.newLabel(), d.newLabel()
		d.jump(instr{op: opJumpFalse, use: uint8(use), a: uint32(cond)}, elseLabel)
		d.ctx = append(d.ctx, scope{i: i, join: -1})
		d.region(then)
		if t := yields(then); t != nil {
			d.exitMoves(t, i.Res, rs, false)
			if yields(els) == nil || len(els.Instrs) > 1 || len(i.Res) > 0 {
				d.jump(instr{op: opJump}, end)
			}
		}
		d.flushCount()
		d.label(elseLabel)
		d.region(els)
		if t := yields(els); t != nil {
			d.exitMoves(t, i.Res, rs, false)
		}
		d.flushCount()
		d.label(end)
		d.ctx = d.ctx[:len(d.ctx)-1]
		d.defineResults(i, rs)
		return
	}
	outer := d.join()
	elseMask, joined := d.newReg(cScalar), d.newReg(cScalar)
	end := d.newLabel()
	// An else arm that does nothing needs no code: its lanes wait at the end.
	if len(els.Instrs) == 1 && els.Instrs[0].Op == ir.Yield && len(i.Res) == 0 {
		d.count++ // its Yield, as the other path counts it
		d.jump(instr{op: opIf, use: uint8(use), a: uint32(cond), c: uint32(joined)}, end)
		d.ctx = append(d.ctx, scope{i: i, join: end})
		d.region(then)
		d.flushCount()
		d.ctx = d.ctx[:len(d.ctx)-1]
		d.label(end)
		d.curPos = pos
		d.jump(instr{op: opEndIf, a: uint32(joined)}, outer)
		return
	}
	elseLabel := d.newLabel()
	d.jump(instr{op: opIf, use: uint8(use), a: uint32(cond), b: uint32(elseMask), c: uint32(joined)}, elseLabel)
	d.ctx = append(d.ctx, scope{i: i, join: elseLabel})
	d.region(then)
	if t := yields(then); t != nil {
		d.exitMoves(t, i.Res, rs, false)
	}
	d.flushCount()
	d.label(elseLabel)
	d.curPos = pos
	d.jump(instr{op: opElse, b: uint32(elseMask), c: uint32(joined)}, end)
	d.ctx[len(d.ctx)-1].join = end
	d.region(els)
	if t := yields(els); t != nil {
		d.exitMoves(t, i.Res, rs, true)
	}
	d.flushCount()
	d.label(end)
	d.ctx = d.ctx[:len(d.ctx)-1]
	d.curPos = pos
	d.jump(instr{op: opEndIf, a: uint32(joined)}, outer)
	d.defineResults(i, rs)
}

func (d *decoder) loop(i *ir.Instr) {
	fl := d.flow[i]
	body := i.Body[0]
	rs := d.results(i)
	c := scope{i: i, join: -1, exit: d.newLabel(), head: d.newLabel(), res: rs}
	pos := d.curPos

	// Carried registers, and where Continue puts their next values: elsewhere for a
	// uniform value, if lanes that are still in the iteration may read the old one.
	var carried []int
	var stage []move
	var init []move
	for k, v := range body.Args {
		t := d.f.Types[v]
		r := d.newReg(d.classOf(t, d.varying[v]))
		carried = append(carried, r)
		next := r
		if fl.contDiv && !d.varying[v] {
			next = d.newReg(d.regs[r].class)
			stage = append(stage, move{dst: r, src: next, class: d.regs[r].class})
		}
		c.carry = append(c.carry, next)
		init = append(init, d.move(next, i.Args[k], t, d.varying[v], d.root[v]))
	}
	d.moves(init, false)
	for _, r := range carried {
		d.touch(r)
	}
	outer := d.join()
	if fl.div {
		c.join, c.brk, c.cont = d.newLabel(), d.newReg(cScalar), d.newReg(cScalar)
		d.emit(instr{op: opLoopEnter, a: uint32(c.brk), b: uint32(c.cont)})
	}
	d.flushCount()
	d.label(c.head)
	span := len(d.loops)
	d.loops = append(d.loops, loopSpan{start: len(d.p.code)})
	d.open = append(d.open, span)
	d.ctx = append(d.ctx, c)
	d.moves(stage, false)
	for k, v := range body.Args {
		d.define(v, carried[k])
	}
	d.region(body)
	d.flushCount()
	d.curPos = pos
	for _, r := range append(append([]int{}, carried...), c.carry...) {
		d.touch(r)
	}
	if fl.div {
		d.label(c.join)
		head := c.head
		d.jump(instr{op: opLoopNext, a: uint32(c.brk), b: uint32(c.cont)}, head)
		d.loops[span].end = len(d.p.code)
		// Fall through with the lanes that broke out, or none.
		d.jump(instr{op: opEndIf}, outer)
	} else {
		d.loops[span].end = len(d.p.code)
	}
	d.open = d.open[:len(d.open)-1]
	d.ctx = d.ctx[:len(d.ctx)-1]
	d.label(c.exit)
	d.defineResults(i, rs)
}

func (d *decoder) block(i *ir.Instr) {
	fl := d.flow[i]
	rs := d.results(i)
	c := scope{i: i, join: -1, exit: d.newLabel(), res: rs}
	outer := d.join()
	pos := d.curPos
	if fl.div {
		c.join, c.brk = d.newLabel(), d.newReg(cScalar)
		d.emit(instr{op: opLoopEnter, a: uint32(c.brk), b: uint32(c.brk)})
	}
	d.ctx = append(d.ctx, c)
	d.region(i.Body[0])
	d.flushCount()
	d.ctx = d.ctx[:len(d.ctx)-1]
	d.curPos = pos
	if fl.div {
		d.label(c.join)
		d.jump(instr{op: opEndIf, a: uint32(c.brk)}, outer)
	}
	d.label(c.exit)
	d.defineResults(i, rs)
}

// leave is a Break or Continue.
func (d *decoder) leave(i *ir.Instr) {
	var c *scope
	for k := range d.ctx {
		if d.ctx[k].i == i.Target {
			c = &d.ctx[k]
		}
	}
	if c == nil {
		d.fail(i, "exit of a region that is not around it")
		return
	}
	fl := d.flow[i.Target]
	if i.Op == ir.Break {
		d.exitMoves(i, i.Target.Res, c.res, fl.div)
		if fl.div {
			d.jump(instr{op: opLeave, a: uint32(c.brk)}, d.join())
			return
		}
		d.jump(instr{op: opJump}, c.exit)
		return
	}
	d.exitMoves(i, i.Target.Body[0].Args, c.carry, fl.contDiv)
	if fl.div {
		d.jump(instr{op: opLeave, a: uint32(c.cont)}, d.join())
		return
	}
	d.jump(instr{op: opBackEdge}, c.head)
}
