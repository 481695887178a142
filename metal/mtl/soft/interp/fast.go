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
