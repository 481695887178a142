package pass

import "minfer/metal/msl/ir"

// DCE removes what nothing depends on. Stores, atomics, barriers, collectives,
// returns and loops (which might not end) stay, and so do loads of device and
// threadgroup memory: a checker wants to see every access that the source makes.
func DCE(f *ir.Func) bool {
	d := &dce{f: f, def: make([]int32, len(f.Types)), liveVal: make([]bool, len(f.Types)), to: map[*ir.Instr][]int32{}}
	d.index(f.Body, -1)
	d.live = make([]bool, len(d.nodes))
	for n := range d.nodes {
		if root(d.nodes[n].i) {
			d.mark(int32(n))
		}
	}
	for len(d.work) > 0 {
		n := d.work[len(d.work)-1]
		d.work = d.work[:len(d.work)-1]
		d.visit(n)
	}
	d.next = 0
	d.regions(f.Body, nil)
	d.definitions(f.Body)
	return d.removed
}

// node is an instruction, numbered in the order of the text.
type node struct {
	i      *ir.Instr
	parent int32 // the construct around, -1 for the body
}

type dce struct {
	f     *ir.Func
	nodes []node
	// def is the instruction that defines a value; a loop's carried values belong
	// to the loop.
	def     []int32
	live    []bool
	liveVal []bool
	to      map[*ir.Instr][]int32
	work    []int32
	next    int32
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

func (d *dce) index(r *ir.Region, parent int32) {
	for _, i := range r.Instrs {
		n := int32(len(d.nodes))
		d.nodes = append(d.nodes, node{i, parent})
		for _, v := range i.Res {
			d.def[v] = n
		}
		if i.Target != nil {
			d.to[i.Target] = append(d.to[i.Target], n)
		}
		for _, b := range i.Body {
			for _, a := range b.Args {
				d.def[a] = n
			}
			d.index(b, n)
		}
	}
}

func (d *dce) mark(n int32) {
	if n >= 0 && !d.live[n] {
		d.live[n] = true
		d.work = append(d.work, n)
	}
}

func (d *dce) visit(n int32) {
	i := d.nodes[n].i
	d.mark(d.nodes[n].parent)
	switch i.Op {
	case ir.Yield, ir.Break, ir.Continue:
		// Operands are used where the results are.
	case ir.If:
		d.use(i.Args[0])
	case ir.Loop, ir.Block:
		for _, b := range d.to[i] {
			d.mark(b)
		}
	default:
		for _, a := range i.Args {
			d.use(a)
		}
	}
}

func (d *dce) use(v ir.Value) {
	if d.liveVal[v] {
		return
	}
	d.liveVal[v] = true
	n := d.def[v]
	i := d.nodes[n].i
	d.mark(n)
	if len(i.Body) == 0 {
		return
	}
	for k, r := range i.Res {
		if r != v {
			continue
		}
		if i.Op == ir.If {
			for _, b := range i.Body {
				if y := terminator(b); y.Op == ir.Yield {
					d.use(y.Args[k])
				}
			}
			return
		}
		for _, b := range d.to[i] {
			if o := d.nodes[b].i; o.Op == ir.Break {
				d.use(o.Args[k])
			}
		}
		return
	}
	for k, a := range i.Body[0].Args {
		if a != v {
			continue
		}
		d.use(i.Args[k])
		for _, c := range d.to[i] {
			if o := d.nodes[c].i; o.Op == ir.Continue {
				d.use(o.Args[k])
			}
		}
		return
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

// regions removes dead instructions and the operands of dead results; the
// definitions keep their results until all uses are done. It passes the
// instructions in the order of index.
func (d *dce) regions(r *ir.Region, parent *ir.Instr) {
	out := r.Instrs[:0]
	for _, i := range r.Instrs {
		live := d.live[d.next]
		d.next++
		if !live && !i.Op.Terminator() {
			d.removed = true
			d.skip(i)
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
	clear(r.Instrs[len(out):])
	r.Instrs = out
}

// skip passes what is inside a dead construct.
func (d *dce) skip(i *ir.Instr) {
	for _, b := range i.Body {
		for _, j := range b.Instrs {
			d.next++
			d.skip(j)
		}
	}
}

func (d *dce) definitions(r *ir.Region) {
	for _, i := range r.Instrs {
		for _, b := range i.Body {
			d.definitions(b)
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
