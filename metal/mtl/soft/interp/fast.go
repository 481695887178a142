package interp

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/lane"
)

// The form of a program that runs without a sanitizer: loads of neighbouring
// elements are one, and loads are steps among the others where the CPU has them.
// It gives the same results and counters.

// group is loads that are done as one, at the place of the first of them.
type group struct {
	loads []*ir.Instr // by address
	first *ir.Instr
	disp  int64 // from the address of the first to that of loads[0]
}

// place is a pointer as a value and a constant.
type place struct {
	base ir.Value
	disp int64
	load *ir.Instr
}

// findPointers notes which pointers are another and a constant.
func (d *decoder) findPointers(r *ir.Region) {
	for _, i := range r.Instrs {
		if i.Op == ir.Const || i.Op == ir.PtrAdd {
			d.defs[i.Res[0]] = i
		}
		for _, b := range i.Body {
			d.findPointers(b)
		}
	}
}

func (d *decoder) placeOf(v ir.Value) (base ir.Value, disp int64) {
	for {
		i := d.defs[v]
		if i == nil || i.Op != ir.PtrAdd {
			return v, disp
		}
		c := d.defs[i.Args[1]]
		if c == nil || c.Op != ir.Const {
			return v, disp
		}
		v, disp = i.Args[0], disp+int64(c.Imm)
	}
}

// findGroups looks for loads of neighbours in a region with no write, barrier or
// branch in between.
func (d *decoder) findGroups(r *ir.Region) {
	var open []place
	join := func() {
		slices.SortStableFunc(open, func(x, y place) int {
			return cmp.Or(cmp.Compare(x.base, y.base), cmp.Compare(x.load.Mem.Elem, y.load.Mem.Elem), cmp.Compare(x.disp, y.disp))
		})
		for len(open) > 0 {
			n, size := 1, int64(open[0].load.Mem.Elem.Size())
			for n < len(open) && n < 4 && open[n].base == open[0].base && open[n].load.Mem.Elem == open[0].load.Mem.Elem &&
				open[n].disp == open[0].disp+int64(n)*size {
				n++
			}
			if n == 3 || n == 2 && size == 2 {
				n--
			}
			if n > 1 {
				d.joinLoads(r, open[:n])
			}
			open = open[n:]
		}
		open = nil
	}
	for _, i := range r.Instrs {
		switch i.Op {
		case ir.Load:
			v, m := i.Args[0], i.Mem
			if m.Count == 1 && (m.Elem.Size() == 2 || m.Elem.Size() == 4) && d.varying[v] && d.root[v] > 0 && !d.isAlloca(d.root[v]) {
				base, disp := d.placeOf(v)
				open = append(open, place{base, disp, i})
			}
		case ir.Store, ir.AtomicLoad, ir.AtomicStore, ir.AtomicRMW, ir.AtomicCAS, ir.TgBarrier, ir.SgBarrier, ir.Fence, ir.SgStore:
			join()
		}
		if len(i.Body) > 0 {
			join()
		}
	}
	join()
}

func (d *decoder) joinLoads(r *ir.Region, places []place) {
	g := &group{}
	for _, p := range places {
		g.loads = append(g.loads, p.load)
		d.groups[p.load] = g
	}
	for _, i := range r.Instrs {
		if d.groups[i] == g {
			g.first = i
			break
		}
	}
	for _, p := range places {
		if p.load == g.first {
			g.disp = places[0].disp - p.disp
		}
	}
}

// loadGroup emits all loads of a group.
func (d *decoder) loadGroup(g *group) {
	a := d.address(g.first, g.first.Args[0])
	a.disp += g.disp
	a.count, a.joined = len(g.loads), true
	var regs []int
	for _, l := range g.loads {
		r := d.newReg(d.classOf(d.f.Types[l.Res[0]], true))
		regs = append(regs, r)
		a.regs = append(a.regs, uint32(r))
	}
	d.emit(instr{op: opLoad, x: d.addAccess(a)})
	for k, l := range g.loads {
		d.define(l.Res[0], regs[k])
	}
}

// loadJoined does the loads of a group one by one, for some elements may be in
// the object and others not.
func (s *simdgroup) loadJoined(w *worker, a *access, m uint32) {
	one := *a
	one.count, one.joined, one.dev = 1, false, false
	for k := range a.regs {
		one.regs = a.regs[k : k+1]
		s.load(w, &one, m)
		one.disp += int64(a.size)
	}
}

// objectSlot is where the frame has an object's pointer and size.
type objectSlot struct {
	obj int32
	off uint32
}

// slotOf gives the register of an object's pointer, with that of its size behind
// it.
func (d *decoder) slotOf(obj int32) {
	for _, o := range d.p.slots {
		if o.obj == obj {
			return
		}
	}
	r := d.newReg(cScalar)
	d.regs[r].pinned = true
	d.regs[d.newReg(cScalar)].pinned = true
	d.p.slots = append(d.p.slots, objectSlot{obj, uint32(r)})
}

// fusions are the pairs of operations that are one, where only the second reads the
// first's result, as its operand of that number.
var fusions = map[[2]lane.Op]struct {
	op      lane.Op
	operand int
}{
	{lane.And32, lane.U32ToF}:   {lane.AndToF, 0},
	{lane.Or32, lane.U32ToF}:    {lane.OrToF, 0},
	{lane.Shl32, lane.And32}:    {lane.ShlAnd, 0},
	{lane.LShr32, lane.And32}:   {lane.LShrAnd, 0},
	{lane.AShr32, lane.And32}:   {lane.AShrAnd, 0},
	{lane.LShrAnd, lane.U32ToF}: {lane.LShrAndToF, 0},
	{lane.AShrAnd, lane.U32ToF}: {lane.AShrAndToF, 0},
	{lane.And32, lane.Or32}:     {lane.AndOr, 0},
	{lane.SExt8, lane.S32ToF}:   {lane.S8ToF, 0},
	{lane.F16ToF, lane.FMA}:     {lane.FMAHalf, 1},
}

// fuse joins operations that follow each other, before registers have places. It
// gives the instructions that are gone.
func (d *decoder) fuse() []bool {
	p := d.p
	gone := make([]bool, len(p.code))
	uses := make([]int, len(d.regs)) // reads and writes
	target := make([]bool, len(p.code)+1)
	for _, i := range p.code {
		target[i.tgt] = true
		for _, r := range [...]uint32{i.dst, i.a, i.b, i.c} {
			uses[r]++
		}
	}
	for _, a := range p.acc {
		uses[a.su]++
		uses[a.sv]++
		for _, r := range a.regs {
			uses[r]++
		}
		for k := range a.sg {
			uses[a.sg[k]]++
			uses[a.sgVarying[k]]++
		}
	}
	for _, c := range p.coll {
		uses[c.fill]++
		uses[c.mod]++
	}
	last := -1 // the instruction before that is not gone
	for k := range p.code {
		j := &p.code[k]
		if last >= 0 && !target[k] && j.op == opStep && !j.once {
			i := &p.code[last]
			f, ok := fusions[[2]lane.Op{i.lop, j.lop}]
			if ok && i.op == opStep && !i.once && uses[i.dst] == 2 && !d.regs[i.dst].pinned && lane.Lanes(f.op, 0, 0, 0, 0).Fast() {
				args := [3]uint32{j.a, j.b, j.c}
				if args[1-f.operand] == i.dst && f.operand < 2 {
					// The operation commutes.
					args[0], args[1] = args[1], args[0]
				}
				if args[f.operand] == i.dst {
					x := instr{a: i.a, b: i.b, c: i.c}
					switch j.lop {
					case lane.FMA: // a conversion's result
						x.a, x.b, x.c = args[0], i.a, args[2]
					case lane.And32, lane.Or32:
						x.c = args[1]
					}
					j.lop, j.a, j.b, j.c, j.poi = f.op, x.a, x.b, x.c, poisonAny
					for _, r := range [...]uint32{x.a, x.b, x.c} {
						if g := &d.regs[r]; !g.pinned {
							g.last = max(g.last, k)
						}
					}
					d.regs[i.dst].first = -1
					gone[last] = true
				}
			}
		}
		last = k
	}
	return gone
}

// memorySteps gives the steps of a load or a sum, none where the CPU or the
// access is not made for it. Registers are places of the frame.
func (d *decoder) memorySteps(i *instr) []lane.Step {
	var steps []lane.Step
	add := func(m lane.Memory, a *lane.Access) bool {
		two := m.Steps(a)
		steps = append(steps, two[:]...)
		return two[0].Fast()
	}
	if i.op == opReduceUniform {
		c := &d.p.coll[i.x]
		if c.typ != ir.F32 || ir.ReduceOp(c.op) != ir.ReduceAdd || !add(lane.SumF, &lane.Access{Results: [4]uint32{i.dst}, Varying: i.a}) {
			return nil
		}
		return steps
	}
	if i.op != opLoad && i.op != opLoadUniform {
		return nil
	}
	a := &d.p.acc[i.x]
	n := a.size * a.count
	k := slices.IndexFunc(d.p.slots, func(o objectSlot) bool { return o.obj == a.obj })
	if k < 0 || a.elem == ir.I1 || a.disp < math.MinInt32 || a.disp > math.MaxInt32 {
		return nil
	}
	x := lane.Access{Uniform: a.su, Varying: a.sv, Object: d.p.slots[k].off, Disp: int32(a.disp), Bytes: uint32(n)}
	log := bits.TrailingZeros(uint(a.size))
	if i.op == opLoadUniform {
		for k, r := range a.regs {
			x.Results[0], x.Delta = r, uint32(k*a.size)
			if !add(lane.ReadOnce8+lane.Memory(log), &x) {
				return nil
			}
		}
		return steps
	}
	if a.sv == 0 {
		return nil
	}
	several := lane.Memory(0)
	switch {
	case a.size == 2 && a.count == 4:
		several = lane.Read16x4
	case a.size == 4 && a.count == 4:
		several = lane.Read32x4
	case a.size == 4 && a.count == 2:
		several = lane.Read32x2
	}
	if several != 0 {
		copy(x.Results[:], a.regs)
		if !add(several, &x) {
			return nil
		}
		return steps
	}
	x.Bytes = uint32(a.size*(a.count-1) + max(a.size, 4))
	for k, r := range a.regs {
		x.Results[0], x.Delta = r, uint32(k*a.size)
		if !add(lane.Read8+lane.Memory(log), &x) {
			return nil
		}
	}
	return steps
}

// resume does a load of the batch before pc that was not done as a step, and goes on
// behind it.
func (s *simdgroup) resume(w *worker, pc int, m uint32) {
	p := w.p
	k := pc - 1
	end := k + int(p.code[k].n)
	at := int(p.code[k].x)
	for {
		n, ok := lane.Resume(&p.steps[at], s.base)
		if !ok {
			return
		}
		at += n
		for k+1 < end && int(p.code[k+1].x) <= at {
			k++
		}
		read := w.cnt.DeviceRead // the batch has counted it
		a := &p.acc[p.code[k].a]
		if p.code[k].once {
			s.loadUniform(w, a, m)
		} else {
			s.load(w, a, m)
		}
		w.cnt.DeviceRead = read
		at += 2
		lane.Run(&p.steps[at], s.base)
	}
}
