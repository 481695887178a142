package interp

import (
	"slices"
	"sync"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/lane"
)

// Decode prepares a verified function for execution. An error is a *DecodeError.
func Decode(f *ir.Func) (*Program, error) {
	p, err := decodeForm(f, false)
	if err != nil {
		return nil, err
	}
	p.fast = sync.OnceValues(func() (*Program, error) { return decodeForm(f, true) })
	return p, nil
}

// decodeForm makes the form for a sanitizer or the fast one.
func decodeForm(f *ir.Func, fast bool) (*Program, error) {
	d := &decoder{facts: analyze(f), f: f, p: &Program{f: f, ordered: orderMatters(f)}, consts: map[constKey]int{}, fast: fast}
	if fast {
		d.defs, d.groups = make([]*ir.Instr, len(f.Types)), map[*ir.Instr]*group{}
		d.findPointers(f.Body)
	}
	d.vals = make([]value, len(f.Types))
	d.newReg(cScalar) // the zero slot
	d.newReg(cScalar) // scratch: scratchReg
	d.newReg(cScalar) // lane.Stopped
	for i := range d.regs {
		d.regs[i].pinned = true
	}
	d.newLabel() // the function's end
	d.layout()
	d.region(f.Body)
	d.flushCount()
	d.label(endLabel)
	d.emit(instr{op: opEnd})
	if d.err != nil {
		return nil, d.err
	}
	d.finish()
	return d.p, nil
}

// value is where a value lives. Registers are indices, 0 where there is none.
type value struct {
	reg int // scalar or mask slot if uniform, vector if varying
	vec int // the vector copy of a uniform value
	// A pointer is su + sv + disp from the start of its root.
	isAddr bool
	su, sv int
	disp   int64
	// A constant's bits.
	isConst bool
	bits    uint64
}

type constKey struct {
	bits uint64
	kind class
}

type decoder struct {
	*facts
	f      *ir.Func
	p      *Program
	vals   []value
	regs   []reg
	consts map[constKey]int

	labels []int // position, -1 before
	fixups []int // instructions whose tgt is a label
	loops  []loopSpan
	open   []int // loops around the place
	count  uint32
	curPos ir.Pos
	fast   bool
	defs   []*ir.Instr // by value: PtrAdd and Const, where fast
	groups map[*ir.Instr]*group
	ctx    []scope
	err    error
}

// scope is an If, Loop or Block whose body is being emitted.
type scope struct {
	i *ir.Instr
	// join is the label where lanes that leave meet those that stay, -1 where all
	// lanes go the same way.
	join  int
	exit  int // label behind a Loop or Block
	head  int // label of a loop's first instruction
	brk   int // mask registers of a divergent Loop or Block
	cont  int
	res   []int // registers of results
	carry []int // where Continue puts the next values
}

func (d *decoder) fail(i *ir.Instr, msg string) {
	if d.err == nil {
		var pos ir.Position
		if i != nil && int(i.Pos) < len(d.f.Positions) {
			pos = d.f.Positions[i.Pos]
		}
		d.err = &DecodeError{Func: d.f.Name, Pos: pos, Msg: msg}
	}
}

// layout places private arrays and threadgroup variables.
func (d *decoder) layout() {
	for _, a := range d.f.Allocas {
		d.p.allocas = append(d.p.allocas, d.p.allocaWords)
		d.p.allocaWords += (a.Size + 15) / 16 * 4
	}
	for _, s := range d.f.Statics {
		align := max(s.Align, 16)
		d.p.staticBytes = (d.p.staticBytes + align - 1) / align * align
		d.p.statics = append(d.p.statics, d.p.staticBytes)
		d.p.staticBytes += s.Size
	}
}

// Registers.

func (d *decoder) newReg(c class) int {
	d.regs = append(d.regs, reg{class: c, first: -1, last: -1})
	return len(d.regs) - 1
}

// touch notes a reference to a register at the next instruction.
func (d *decoder) touch(r int) {
	at := len(d.p.code)
	g := &d.regs[r]
	if g.pinned {
		return
	}
	if g.first < 0 {
		g.first = at
	}
	g.last = max(g.last, at)
	for _, l := range d.open {
		if d.loops[l].start > g.first {
			if n := len(g.loops); n == 0 || g.loops[n-1] != l {
				g.loops = append(g.loops, l)
			}
			break
		}
	}
}

func (d *decoder) constReg(bits uint64, c class) int {
	if bits == 0 && c == cScalar {
		return 0
	}
	k := constKey{bits, c}
	if r, ok := d.consts[k]; ok {
		return r
	}
	r := d.newReg(c)
	d.regs[r].pinned = true
	d.consts[k] = r
	d.p.consts = append(d.p.consts, constant{off: uint32(r), bits: bits, kind: c})
	return r
}

func (d *decoder) classOf(t ir.Type, varying bool) class {
	switch {
	case t.IsSg():
		return cSg
	case !varying || t == ir.I1:
		return cScalar
	case t == ir.I64 || t == ir.Ptr:
		return cWide
	}
	return cVec
}

// Emission.

func (d *decoder) emit(i instr) int {
	for _, r := range [...]uint32{i.dst, i.a, i.b, i.c} {
		if r != 0 {
			d.touch(int(r))
		}
	}
	switch i.op {
	case opIf, opElse, opEndIf, opJump, opJumpFalse, opBackEdge, opLoopNext, opLeave, opReturn, opEnd, opTgBarrier, opCount:
		i.cnt = d.count
		d.count = 0
	}
	d.p.code = append(d.p.code, i)
	d.p.pos = append(d.p.pos, d.curPos)
	return len(d.p.code) - 1
}

func (d *decoder) newLabel() int {
	d.labels = append(d.labels, -1)
	return len(d.labels) - 1
}

func (d *decoder) label(l int) { d.labels[l] = len(d.p.code) }

// jump emits an instruction whose target is a label.
func (d *decoder) jump(i instr, label int) {
	i.tgt = int32(label)
	d.fixups = append(d.fixups, d.emit(i))
}

// flushCount makes the instructions so far count before a place that others
// jump to.
func (d *decoder) flushCount() {
	if d.count > 0 {
		d.emit(instr{op: opCount})
	}
}

// scratchReg is the register at scratchSlot, which holds the mask of active lanes
// while steps run.
const scratchReg = 1

const endLabel = 0

// join is the label where lanes go that leave the current place: the innermost
// one where others may wait.
func (d *decoder) join() int {
	for k := len(d.ctx) - 1; k >= 0; k-- {
		if d.ctx[k].join >= 0 {
			return d.ctx[k].join
		}
	}
	return endLabel
}

// Operands.

// scalarOf is the register of a uniform value, or of any I1.
func (d *decoder) scalarOf(v ir.Value) int {
	x := &d.vals[v]
	if x.isAddr {
		return d.pointer(v, false)
	}
	if x.isConst {
		return d.constReg(x.bits, cScalar)
	}
	return x.reg
}

// vecOf is the register of a value's 32 lanes.
func (d *decoder) vecOf(v ir.Value) int {
	x := &d.vals[v]
	t := d.f.Types[v]
	if t == ir.I1 {
		return d.scalarOf(v)
	}
	c := cVec
	if t == ir.I64 || t == ir.Ptr {
		c = cWide
	}
	switch {
	case x.isConst:
		return d.constReg(x.bits, c)
	case x.isAddr:
		if d.varying[v] {
			return d.pointer(v, false)
		}
		if x.vec == 0 {
			if x.su == 0 {
				return d.constReg(uint64(x.disp), cWide)
			}
			// The full register may live in an arm only: do not remember it.
			return d.bcast(d.pointer(v, false), cWide)
		}
		return x.vec
	case d.varying[v]:
		return x.reg
	}
	return x.vec
}

func (d *decoder) bcast(scalar int, c class) int {
	r := d.newReg(c)
	op := lane.Bcast32
	if c == cWide {
		op = lane.Bcast64
	}
	d.emit(instr{op: opStep, lop: op, dst: uint32(r), a: uint32(scalar)})
	return r
}

// operand is the register of v for an operation whose result varies or not.
func (d *decoder) operand(v ir.Value, varying bool) int {
	if varying {
		return d.vecOf(v)
	}
	return d.scalarOf(v)
}

// pointer gives a pointer's offset in one register (tagged: with the object's
// number in the top bits).
func (d *decoder) pointer(v ir.Value, tagged bool) int {
	x := d.vals[v]
	varying := d.varying[v]
	root := d.root[v]
	disp := x.disp
	if tagged && root >= 0 {
		disp = int64(tag(root, x.disp))
	}
	if !x.isAddr {
		if x.isConst {
			return d.constReg(uint64(disp)+x.bits, d.classOf(ir.Ptr, varying))
		}
		x.su, x.sv = x.reg, 0
		if varying {
			x.su, x.sv = 0, x.reg
		}
	}
	var r int
	switch {
	case !varying:
		r = x.su
		if disp != 0 {
			r = d.op(lane.Add64, false, cScalar, r, d.constReg(uint64(disp), cScalar))
		}
	default:
		r = x.sv
		if x.su != 0 {
			r = d.op(lane.Add64, true, cWide, r, d.bcast(x.su, cWide))
		}
		if disp != 0 {
			r = d.op(lane.Add64, true, cWide, r, d.constReg(uint64(disp), cWide))
		}
	}
	return r
}

// op emits a lane operation into a new register.
func (d *decoder) op(o lane.Op, varying bool, c class, args ...int) int {
	r := d.newReg(c)
	d.opTo(r, o, varying, args...)
	return r
}

func (d *decoder) opTo(dst int, o lane.Op, varying bool, args ...int) {
	i := instr{op: opStep, lop: o, once: !varying, dst: uint32(dst)}
	for k, a := range args {
		switch k {
		case 0:
			i.a = uint32(a)
		case 1:
			i.b = uint32(a)
		case 2:
			i.c = uint32(a)
		}
	}
	if o == lane.Select32 || o == lane.Select64 {
		i.poi = poisonSelect
	}
	d.emit(i)
}

// mask emits an operation on the bits of masks into a new register.
func (d *decoder) mask(o lane.Op, rule poisonRule, args ...int) int {
	r := d.newReg(cScalar)
	i := instr{op: opStep, lop: o, once: true, poi: rule, dst: uint32(r), a: uint32(args[0]), b: uint32(args[1])}
	if len(args) > 2 {
		i.c = uint32(args[2])
	}
	d.emit(i)
	return r
}

// define records where a result lives and gives a uniform one its vector copy,
// which finish drops where nobody reads it.
func (d *decoder) define(v ir.Value, r int) {
	t := d.f.Types[v]
	d.vals[v] = value{reg: r}
	if !d.varying[v] && t != ir.I1 && !t.IsSg() {
		d.vals[v].vec = d.bcast(r, d.classOf(t, true))
	}
}

// alias makes v the same register as another value.
func (d *decoder) alias(v, of ir.Value) {
	x := d.vals[of]
	if x.isAddr {
		x = value{reg: d.pointer(of, d.root[of] >= 0)}
		d.define(v, x.reg)
		return
	}
	d.vals[v] = x
}

// Moves.

type move struct {
	dst, src int
	class    class
	varying  bool
}

// move prepares the copy of value v to register dst, which holds values of type t
// that vary or not; root is dst's root if it is a pointer.
func (d *decoder) move(dst int, v ir.Value, t ir.Type, varying bool, root int32) move {
	c := d.classOf(t, varying)
	m := move{dst: dst, class: c, varying: varying || c == cSg}
	switch {
	case t == ir.Ptr:
		r := d.pointer(v, root == rootDynamic && d.root[v] != rootDynamic)
		if varying && !d.varying[v] {
			if d.vals[v].isConst {
				r = d.constReg(d.vals[v].bits, cWide)
			} else {
				r = d.bcast(r, cWide)
			}
		}
		m.src = r
	case c == cSg:
		m.src = d.vals[v].reg
	default:
		m.src = d.operand(v, varying)
	}
	return m
}

// moves emits copies that happen at once, of the lanes in the current mask only
// where masked.
func (d *decoder) moves(ms []move, masked bool) {
	put := func(m move, masked bool) {
		masked = masked && m.varying
		i := instr{op: opStep, dst: uint32(m.dst), a: uint32(m.src), once: m.class == cScalar}
		if masked && m.class != cSg {
			// The scratch slot holds the mask.
			i.a, i.b, i.c, i.poi = scratchReg, i.a, i.dst, poisonSelect
		}
		switch {
		case m.class == cSg && masked:
			i.op = opMergeSg
		case m.class == cSg:
			i.op = opCopySg
		case m.class == cVec && masked:
			i.lop = lane.Select32
		case m.class == cWide && masked:
			i.lop = lane.Select64
		case m.class == cScalar && masked:
			i.lop = lane.MaskSelect
		case m.class == cVec:
			i.lop = lane.Copy32
		default:
			i.lop = lane.Copy64
		}
		d.emit(i)
	}
	var todo []move
	for _, m := range ms {
		if m.dst != m.src {
			todo = append(todo, m)
		}
	}
	for len(todo) > 0 {
		// A move whose destination nobody else reads may go first.
		ready := -1
		for k, m := range todo {
			free := true
			for j, o := range todo {
				if j != k && o.src == m.dst {
					free = false
				}
			}
			if free {
				ready = k
				break
			}
		}
		if ready < 0 {
			// A cycle: move one source out of the way.
			t := d.newReg(todo[0].class)
			save := todo[0]
			save.dst = t
			put(save, false)
			todo[0].src = t
			continue
		}
		put(todo[ready], masked)
		todo = append(todo[:ready], todo[ready+1:]...)
	}
}

// finish resolves labels, drops what nobody reads, and replaces registers by
// frame offsets.
func (d *decoder) finish() {
	p := d.p
	for _, at := range d.fixups {
		p.code[at].tgt = int32(d.labels[p.code[at].tgt])
	}
	gone := make([]bool, len(p.code))
	if d.fast {
		gone = d.fuse()
	}
	// Vector copies without a reader.
	read := make([]bool, len(d.regs))
	for _, i := range p.code {
		read[i.a], read[i.b], read[i.c] = true, true, true
	}
	for _, a := range p.acc {
		read[a.su], read[a.sv] = true, true
		for _, r := range a.regs {
			read[r] = true
		}
		for k := range a.sg {
			read[a.sg[k]], read[a.sgVarying[k]] = true, true
		}
	}
	for _, c := range p.coll {
		read[c.fill], read[c.mod] = true, true
	}
	at := make([]int, len(p.code)+1)
	n := 0
	for k, i := range p.code {
		at[k] = n
		if gone[k] {
			continue
		}
		if i.op == opStep && (i.lop == lane.Bcast32 || i.lop == lane.Bcast64) && !read[i.dst] {
			d.regs[i.dst].first = -1
			continue
		}
		p.code[n] = i
		p.pos[n] = p.pos[k]
		n++
	}
	at[len(p.code)] = n
	p.code, p.pos = p.code[:n], p.pos[:n]
	for k := range p.code {
		p.code[k].tgt = int32(at[p.code[k].tgt])
	}
	for k := range d.regs {
		r := &d.regs[k]
		if r.first >= 0 {
			r.first, r.last = at[r.first], at[min(r.last, len(at)-1)]
		}
	}
	for k := range d.loops {
		d.loops[k].start, d.loops[k].end = at[d.loops[k].start], at[d.loops[k].end]
	}
	p.frame = assign(d.regs, d.loops)
	off := func(r uint32) uint32 { return d.regs[r].off }
	for k := range p.code {
		i := &p.code[k]
		i.dst, i.a, i.b, i.c = off(i.dst), off(i.a), off(i.b), off(i.c)
	}
	for k := range p.acc {
		a := &p.acc[k]
		a.su, a.sv = off(a.su), off(a.sv)
		for j := range a.regs {
			a.regs[j] = off(a.regs[j])
		}
		for j := range a.sg {
			a.sg[j], a.sgVarying[j] = off(a.sg[j]), off(a.sgVarying[j])
		}
	}
	for k := range p.coll {
		c := &p.coll[k]
		c.fill, c.mod = off(c.fill), off(c.mod)
	}
	for k := range p.consts {
		p.consts[k].off = off(p.consts[k].off)
	}
	for k := range p.slots {
		p.slots[k].off = off(p.slots[k].off)
	}
	d.batch()
}

// batch makes the steps of pure instructions and joins those in a row, up to
// places that are jumped to.
func (d *decoder) batch() {
	p := d.p
	target := make([]bool, len(p.code)+1)
	for _, i := range p.code {
		target[i.tgt] = true
	}
	head := -1 // the batch that grows
	for k := range p.code {
		i := &p.code[k]
		var st lane.Step
		if i.op == opStep {
			if i.once {
				st = lane.Once(i.lop, i.dst, i.a, i.b, i.c)
			} else {
				st = lane.Lanes(i.lop, i.dst, i.a, i.b, i.c)
			}
			if !st.Fast() {
				i.op, i.fn = opSlow, lane.Func(i.lop)
				if i.once {
					i.op, i.sfn = opSlowScalar, lane.Scalar(i.lop)
				}
			}
		}
		var memory []lane.Step
		if d.fast {
			memory = d.memorySteps(i)
		}
		if head >= 0 && (i.op != opStep && memory == nil || target[k]) {
			p.steps = append(p.steps, lane.End)
			head = -1
		}
		if i.op != opStep && memory == nil {
			continue
		}
		if head < 0 {
			p.batches = append(p.batches, batch{})
		}
		b := &p.batches[len(p.batches)-1]
		if memory != nil {
			if i.op != opReduceUniform {
				b.count(&p.acc[i.x], i.op == opLoadUniform)
				i.a, i.once = i.x, i.op == opLoadUniform
			}
			i.op, i.x = opStep, uint32(len(p.steps))
			p.steps = append(p.steps, memory...)
		} else {
			i.x = uint32(len(p.steps))
			p.steps = append(p.steps, st)
		}
		if head < 0 {
			head = k
			i.op, i.imm = opBatch, uint64(len(p.batches)-1)
		}
		p.code[head].n++
		if d.fast {
			continue
		}
		for _, r := range [...]uint32{i.a, i.b, i.c} {
			if r != zeroSlot && !slices.Contains(b.ins, r) && !slices.Contains(b.outs, r) {
				b.ins = append(b.ins, r)
			}
		}
		if !slices.Contains(b.outs, i.dst) {
			b.outs = append(b.outs, i.dst)
		}
	}
	p.steps = append(p.steps, lane.End)
}
