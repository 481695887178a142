package pass

import "minfer/metal/msl/ir"

// DCE removes what nothing depends on. Stores, atomics, barriers, collectives,
// returns and loops (which might not end) stay, and so do loads of device and
// threadgroup memory: a checker wants to see every access that the source makes.
func DCE(f *ir.Func) bool {
	d := &dce{f: f, def: make([]*ir.Instr, len(f.Types)), arg: map[ir.Value]*ir.Instr{}, parent: map[*ir.Instr]*ir.Instr{},
		live: map[*ir.Instr]bool{}, liveVal: make([]bool, len(f.Types)), to: leaves(f), yields: map[*ir.Instr][]*ir.Instr{}}
	d.index(f.Body, nil)
	for len(d.work) > 0 {
		i := d.work[len(d.work)-1]
		d.work = d.work[:len(d.work)-1]
		d.visit(i)
	}
	d.sweep(f.Body)
	return d.removed
}

type dce struct {
	f       *ir.Func
	def     []*ir.Instr
	arg     map[ir.Value]*ir.Instr // carried value -> its loop
	parent  map[*ir.Instr]*ir.Instr
	live    map[*ir.Instr]bool
	liveVal []bool
	to      map[*ir.Instr][]*ir.Instr
	yields  map[*ir.Instr][]*ir.Instr
	work    []*ir.Instr
	removed bool
}

func root(i *ir.Instr) bool {
	switch op := i.Op; op {
	case ir.Store, ir.Return, ir.Loop, ir.TgBarrier, ir.SgBarrier, ir.Fence, ir.SgStore, ir.Declare:
		return true
	case ir.Load, ir.SgLoad:
		return i.Mem.Space == ir.Device || i.Mem.Space == ir.Threadgroup
	default:
		return op >= ir.AtomicLoad && op <= ir.AtomicCAS || op >= ir.SimdReduce && op <= ir.SimdActive
	}
}

func (d *dce) index(r *ir.Region, parent *ir.Instr) {
	for _, i := range r.Instrs {
		d.parent[i] = parent
		for _, v := range i.Res {
			d.def[v] = i
		}
		if i.Op == ir.Yield {
			d.yields[parent] = append(d.yields[parent], i)
		}
		if root(i) {
			d.mark(i)
		}
		for _, b := range i.Body {
			for _, a := range b.Args {
				d.arg[a] = i
			}
			d.index(b, i)
		}
	}
}

func (d *dce) mark(i *ir.Instr) {
	if i != nil && !d.live[i] {
		d.live[i] = true
		d.work = append(d.work, i)
	}
}

func (d *dce) visit(i *ir.Instr) {
	d.mark(d.parent[i])
	switch i.Op {
	case ir.Yield, ir.Break, ir.Continue, ir.Loop, ir.Block, ir.If:
	default:
		for _, a := range i.Args {
			d.use(a)
		}
		return
	}
	switch i.Op {
	case ir.If:
		d.use(i.Args[0])
	case ir.Loop, ir.Block:
		for _, b := range d.to[i] {
			d.mark(b)
		}
	}
}

func (d *dce) use(v ir.Value) {
	if d.liveVal[v] {
		return
	}
	d.liveVal[v] = true
	if l, ok := d.arg[v]; ok {
		d.mark(l)
		for k, a := range l.Body[0].Args {
			if a == v {
				d.use(l.Args[k])
				for _, c := range d.to[l] {
					if c.Op == ir.Continue {
						d.use(c.Args[k])
					}
				}
			}
		}
		return
	}
	i := d.def[v]
	d.mark(i)
	if len(i.Body) == 0 {
		return
	}
	for k, r := range i.Res {
		if r != v {
			continue
		}
		if i.Op == ir.If {
			for _, y := range d.yields[i] {
				d.use(y.Args[k])
			}
			continue
		}
		for _, b := range d.to[i] {
			if b.Op == ir.Break {
				d.use(b.Args[k])
			}
		}
	}
}

// keep gives the values of vs whose partners in by are live.
func (d *dce) keep(vs, by []ir.Value) []ir.Value {
	n := 0
	for k := range vs {
		if d.liveVal[by[k]] {
			n++
		}
	}
	if n == len(vs) {
		return vs
	}
	d.removed = true
	out := make([]ir.Value, 0, n)
	for k, v := range vs {
		if d.liveVal[by[k]] {
			out = append(out, v)
		}
	}
	return out
}

func (d *dce) sweep(r *ir.Region) {
	d.regions(r, nil)
	d.defsIn(r)
}

// regions removes dead instructions and the operands of dead results, inner
// regions first, so that definitions keep their results until all uses are done.
func (d *dce) regions(r *ir.Region, parent *ir.Instr) {
	out := r.Instrs[:0]
	for _, i := range r.Instrs {
		if !d.live[i] && !i.Op.Terminator() {
			d.removed = true
			continue
		}
		switch i.Op {
		case ir.Yield:
			i.Args = d.keep(i.Args, parent.Res)
		case ir.Break:
			i.Args = d.keep(i.Args, i.Target.Res)
		case ir.Continue:
			i.Args = d.keep(i.Args, i.Target.Body[0].Args)
		}
		for _, b := range i.Body {
			d.regions(b, i)
		}
		out = append(out, i)
	}
	for k := len(out); k < len(r.Instrs); k++ {
		r.Instrs[k] = nil
	}
	r.Instrs = out
}

func (d *dce) defsIn(r *ir.Region) {
	for _, i := range r.Instrs {
		for _, b := range i.Body {
			d.defsIn(b)
		}
		if len(i.Body) == 0 {
			continue
		}
		if i.Op == ir.Loop {
			b := i.Body[0]
			i.Args = d.keep(i.Args, b.Args)
			b.Args = d.keep(b.Args, b.Args)
		}
		i.Res = d.keep(i.Res, i.Res)
	}
}
