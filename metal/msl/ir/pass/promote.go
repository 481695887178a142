package pass

import (
	"sort"

	"minfer/metal/msl/ir"
)

// Promote takes private objects out of memory: the parts of an alloca that are
// only read and written at constant offsets become SSA values, with carried
// values for loops and results for conditionals. Where parts of different types
// overlap (the bytes of a word), the value is the widest part if all stores are of that
// width, and there is a value for each smallest part otherwise, so that a part that nobody
// wrote makes no other part indeterminate; shifts and ors give the rest. An alloca with an address that is computed at run time, or
// that goes anywhere but a load or store, stays as it is.
//
// A Declare makes an alloca indeterminate, so a variable that is declared
// inside a loop is not carried around it. It reports whether something changed.
func Promote(f *ir.Func) bool {
	if len(f.Allocas) == 0 {
		return false
	}
	p := &promoter{f: f, base: make([]address, len(f.Types)), objects: make([]object, len(f.Allocas)), counts: map[*ir.Instr]map[int32]int32{}}
	p.addresses(f.Body)
	p.slots()
	if len(p.slot) == 0 {
		return false
	}
	p.total = map[int32]int32{}
	p.count(f.Body, p.total)
	p.repl = make([]ir.Value, len(f.Types))
	p.env = make([]ir.Value, len(p.slot))
	p.frames = map[*ir.Instr][]int32{}
	p.region(f.Body)
	walk(f.Body, func(i *ir.Instr) {
		for k, a := range i.Args {
			for p.repl[a] != 0 {
				a = p.repl[a]
			}
			i.Args[k] = a
		}
	})
	return true
}

// address is what is known of a pointer: offset off in an alloca.
type address struct {
	alloca int32 // index plus 1, 0 for other pointers
	off    int64
	exact  bool
}

// access is one element of a load or store.
type access struct {
	off int64
	typ ir.Type
}

type object struct {
	blocked bool
	parts   map[access]bool // true: also stored
	slots   []int32         // in order of offset
}

// part is a promoted piece of an alloca.
type part struct {
	alloca int
	off    int64
	size   int64
	typ    ir.Type // of the value that stands for it
}

type promoter struct {
	f       *ir.Func
	base    []address
	objects []object
	slot    []part
	// counts has, for each construct, how many accesses to a slot it contains;
	// total the same for the function. A slot with all accesses inside a construct does not
	// live across its border.
	counts map[*ir.Instr]map[int32]int32
	total  map[int32]int32
	env    []ir.Value
	repl   []ir.Value
	frames map[*ir.Instr][]int32
	pre    []*ir.Instr
	undefs map[ir.Type]ir.Value
}

func (p *promoter) block(v ir.Value) {
	if a := p.base[v]; a.alloca != 0 {
		p.objects[a.alloca-1].blocked = true
	}
}

// addresses finds what pointers are and which objects escape. Definitions come
// before uses in the walk's order.
func (p *promoter) addresses(r *ir.Region) {
	consts := map[ir.Value]int64{}
	walk(r, func(i *ir.Instr) {
		switch i.Op {
		case ir.Const:
			if p.f.Types[i.Res[0]] == ir.I64 {
				consts[i.Res[0]] = int64(i.Imm)
			}
			return
		case ir.PtrAlloca:
			p.base[i.Res[0]] = address{int32(i.Imm) + 1, 0, true}
			return
		case ir.PtrAdd:
			if a := p.base[i.Args[0]]; a.alloca != 0 {
				c, ok := consts[i.Args[1]]
				a.off += c
				a.exact = a.exact && ok
				p.base[i.Res[0]] = a
				if !a.exact {
					p.block(i.Res[0])
				}
			}
			return
		case ir.Load:
			p.access(i, i.Args[0], nil)
			return
		case ir.Store:
			p.access(i, i.Args[0], i.Args[1:])
			return
		case ir.Declare:
			return
		}
		for _, a := range i.Args {
			p.block(a)
		}
	})
}

func (p *promoter) access(i *ir.Instr, ptr ir.Value, vals []ir.Value) {
	for _, v := range vals {
		p.block(v)
	}
	a := p.base[ptr]
	if a.alloca == 0 || !a.exact {
		return
	}
	o := &p.objects[a.alloca-1]
	size := int64(memSize(i.Mem.Elem))
	if a.off < 0 || a.off+size*int64(i.Mem.Count) > int64(p.f.Allocas[a.alloca-1].Size) {
		o.blocked = true // the overrun is for the device to see
		return
	}
	if o.parts == nil {
		o.parts = map[access]bool{}
	}
	for k := range i.Mem.Count {
		x := access{a.off + int64(k)*size, i.Mem.Elem}
		o.parts[x] = o.parts[x] || i.Op == ir.Store
	}
}

// slots decides the parts of the objects that can go.
func (p *promoter) slots() {
	for n := range p.objects {
		o := &p.objects[n]
		if o.blocked {
			continue
		}
		parts := make([]access, 0, len(o.parts))
		for a := range o.parts {
			parts = append(parts, a)
		}
		sort.Slice(parts, func(i, j int) bool {
			if parts[i].off != parts[j].off {
				return parts[i].off < parts[j].off
			}
			return parts[i].typ < parts[j].typ
		})
		var list []part
		for len(parts) > 0 && !o.blocked {
			// A cluster of parts that overlap.
			k, end := 1, parts[0].off+int64(memSize(parts[0].typ))
			for k < len(parts) && parts[k].off < end {
				end = max(end, parts[k].off+int64(memSize(parts[k].typ)))
				k++
			}
			pieces, ok := cluster(parts[:k], end, o.parts)
			o.blocked = !ok
			for _, q := range pieces {
				q.alloca = n
				list = append(list, q)
			}
			parts = parts[k:]
		}
		if o.blocked {
			continue
		}
		for _, l := range list {
			o.slots = append(o.slots, int32(len(p.slot)))
			p.slot = append(p.slot, l)
		}
	}
	for n := range p.objects {
		p.objects[n].parts = nil
	}
}

// cluster gives the values that stand for overlapping parts, which end at end.
func cluster(parts []access, end int64, stored map[access]bool) ([]part, bool) {
	off := parts[0].off
	size := end - off
	one := part{off: off, size: size, typ: parts[0].typ}
	same, whole := true, true
	for _, a := range parts {
		t := a.typ
		if int64(memSize(t)) != size {
			same = false
			whole = whole && !stored[a]
		}
		if len(parts) > 1 && (t == ir.Ptr || t.IsSg()) {
			return nil, false
		}
		// Of floats and integers of one width, floats: conversions are free either way.
		// Bools are bytes.
		if t.IsFloat() || one.typ == ir.I1 {
			one.typ = t
		}
	}
	switch {
	case same:
		return []part{one}, true
	case size > 32:
		return nil, false
	case whole && (size == 2 || size == 4 || size == 8):
		one.typ = ir.IntOf(int(size))
		return []part{one}, true
	}
	// A value between each two borders.
	cut := map[int64]bool{}
	for _, a := range parts {
		cut[a.off] = true
		cut[a.off+int64(memSize(a.typ))] = true
	}
	var out []part
	for at := off; at < end; {
		next := at + 1
		for !cut[next] {
			next++
		}
		n := next - at
		if ir.IntOf(int(n)) == ir.Void {
			n = 1
		}
		out = append(out, part{off: at, size: n, typ: ir.IntOf(int(n))})
		at += n
	}
	return out, true
}

// within gives the slots that an access to [off, off+size) of an object touches.
func (p *promoter) within(o *object, off, size int64) []int32 {
	k := sort.Search(len(o.slots), func(k int) bool { s := p.slot[o.slots[k]]; return s.off+s.size > off })
	e := k
	for e < len(o.slots) && p.slot[o.slots[e]].off < off+size {
		e++
	}
	return o.slots[k:e]
}

// target gives the object and offset of a load, store or declare that goes away.
func (p *promoter) target(i *ir.Instr) (*object, int64, bool) {
	switch i.Op {
	case ir.Load, ir.Store, ir.Declare:
		if a := p.base[i.Args[0]]; a.alloca != 0 && !p.objects[a.alloca-1].blocked {
			return &p.objects[a.alloca-1], a.off, true
		}
	}
	return nil, 0, false
}

func (p *promoter) count(r *ir.Region, into map[int32]int32) {
	for _, i := range r.Instrs {
		if o, off, ok := p.target(i); ok {
			list := o.slots
			if i.Op != ir.Declare {
				list = p.within(o, off, int64(i.Mem.Count)*int64(memSize(i.Mem.Elem)))
			}
			for _, s := range list {
				into[s]++
			}
			continue
		}
		if len(i.Body) == 0 {
			continue
		}
		m := map[int32]int32{}
		for _, b := range i.Body {
			p.count(b, m)
		}
		p.counts[i] = m
		for s, n := range m {
			into[s] += n
		}
	}
}

// crossing gives the slots that live across the border of a construct, in order.
func (p *promoter) crossing(i *ir.Instr) []int32 {
	var list []int32
	for s, n := range p.counts[i] {
		if n < p.total[s] {
			list = append(list, s)
		}
	}
	sort.Slice(list, func(a, b int) bool { return list[a] < list[b] })
	return list
}

func (p *promoter) newValue(t ir.Type) ir.Value {
	p.repl = append(p.repl, 0)
	return p.f.NewValue(t)
}

// undef gives the indeterminate value of a type.
func (p *promoter) undef(t ir.Type) ir.Value {
	if v, ok := p.undefs[t]; ok {
		return v
	}
	if p.undefs == nil {
		p.undefs = map[ir.Type]ir.Value{}
	}
	v := p.newValue(t)
	p.undefs[t] = v
	p.pre = append(p.pre, &ir.Instr{Op: ir.Undef, Res: []ir.Value{v}})
	return v
}

func (p *promoter) now(s int32) ir.Value {
	if p.env[s] == 0 {
		return p.undef(p.slot[s].typ)
	}
	return p.env[s]
}

func (p *promoter) region(r *ir.Region) {
	top := r == p.f.Body
	out := make([]*ir.Instr, 0, len(r.Instrs))
	for _, i := range r.Instrs {
		p.instr(i, &out)
	}
	if top {
		out = append(p.pre, out...)
	}
	r.Instrs = out
}

func (p *promoter) instr(i *ir.Instr, out *[]*ir.Instr) {
	if o, off, ok := p.target(i); ok {
		p.replace(i, o, off, out)
		return
	}
	switch i.Op {
	case ir.Break, ir.Continue:
		for _, s := range p.frames[i.Target] {
			i.Args = append(i.Args, p.now(s))
		}
	case ir.If:
		p.cond(i)
	case ir.Loop, ir.Block:
		list := p.crossing(i)
		p.frames[i] = list
		if i.Op == ir.Loop {
			// i.Args may be shared with another instruction's list.
			i.Args = append([]ir.Value(nil), i.Args...)
			for _, s := range list {
				i.Args = append(i.Args, p.now(s))
				a := p.newValue(p.slot[s].typ)
				i.Body[0].Args = append(i.Body[0].Args, a)
				p.env[s] = a
			}
		}
		p.region(i.Body[0])
		for _, s := range list {
			v := p.newValue(p.slot[s].typ)
			i.Res = append(i.Res, v)
			p.env[s] = v
		}
	}
	*out = append(*out, i)
}

func (p *promoter) cond(i *ir.Instr) {
	list := p.crossing(i)
	before := make([]ir.Value, len(list))
	for k, s := range list {
		before[k] = p.env[s]
	}
	var after [2][]ir.Value
	for n, r := range i.Body {
		for k, s := range list {
			p.env[s] = before[k]
		}
		p.region(r)
		for _, s := range list {
			after[n] = append(after[n], p.env[s])
		}
	}
	y := [2]*ir.Instr{terminator(i.Body[0]), terminator(i.Body[1])}
	for k, s := range list {
		// An arm that leaves says nothing about what follows.
		a, b := after[0][k], after[1][k]
		if y[0].Op != ir.Yield {
			a = b
		}
		if y[1].Op != ir.Yield {
			b = a
		}
		// The value of an arm that leaves, or no change: no result needed, unless
		// the value is defined inside the arm.
		if a == b && a == before[k] {
			p.env[s] = a
			continue
		}
		v := p.newValue(p.slot[s].typ)
		i.Res = append(i.Res, v)
		for n := range y {
			if y[n].Op == ir.Yield {
				w := after[n][k]
				if w == 0 {
					w = p.undef(p.slot[s].typ)
				}
				y[n].Args = append(y[n].Args, w)
			}
		}
		p.env[s] = v
	}
}

// replace turns a load into values and a store into definitions.
func (p *promoter) replace(i *ir.Instr, o *object, off int64, out *[]*ir.Instr) {
	if i.Op == ir.Declare {
		for _, s := range o.slots {
			p.env[s] = 0
		}
		return
	}
	emit := func(op ir.Op, t ir.Type, imm uint64, args ...ir.Value) ir.Value {
		v := p.newValue(t)
		*out = append(*out, &ir.Instr{Op: op, Imm: imm, Args: args, Res: []ir.Value{v}, Pos: i.Pos})
		return v
	}
	t := i.Mem.Elem
	size := int64(memSize(t))
	for k := range i.Mem.Count {
		at := off + int64(k)*size
		slots := p.within(o, at, size)
		if i.Op == ir.Load {
			p.repl[i.Res[k]] = p.read(emit, slots, t, at)
			continue
		}
		v := i.Args[1+k]
		for p.repl[v] != 0 {
			v = p.repl[v]
		}
		for _, s := range slots {
			q := p.slot[s]
			p.env[s] = extract(emit, v, t, q.typ, q.off-at)
		}
	}
}

// read puts a value of type t at an offset together from the slots that it covers.
func (p *promoter) read(emit emitter, slots []int32, t ir.Type, at int64) ir.Value {
	if len(slots) == 1 {
		q := p.slot[slots[0]]
		return extract(emit, p.now(slots[0]), q.typ, t, at-q.off)
	}
	word := ir.IntOf(memSize(t))
	var r ir.Value
	for _, s := range slots {
		q := p.slot[s]
		x := emit(ir.ZExt, word, 0, bitcast(emit, p.now(s), q.typ, ir.IntOf(int(q.size))))
		if q.off > at {
			x = emit(ir.Shl, word, 0, x, emit(ir.Const, word, uint64(q.off-at)*8))
		}
		if r == 0 {
			r = x
		} else {
			r = emit(ir.Or, word, 0, r, x)
		}
	}
	return bitcast(emit, r, word, t)
}

type emitter = func(op ir.Op, t ir.Type, imm uint64, args ...ir.Value) ir.Value

// bitcast changes the type of v between types of one size. A bool in memory is a
// byte, 0 or 1.
func bitcast(emit emitter, v ir.Value, from, to ir.Type) ir.Value {
	switch {
	case from == to:
		return v
	case from == ir.I1:
		v = emit(ir.ZExt, ir.I8, 0, v)
		return bitcast(emit, v, ir.I8, to)
	case to == ir.I1:
		v = bitcast(emit, v, from, ir.I8)
		return emit(ir.ICmp, ir.I1, uint64(ir.Ne), v, emit(ir.Const, ir.I8, 0))
	}
	return emit(ir.Bitcast, to, 0, v)
}

// extract reads a value of type t at a byte offset of a wider value.
func extract(emit emitter, v ir.Value, from, t ir.Type, off int64) ir.Value {
	if memSize(from) == memSize(t) {
		return bitcast(emit, v, from, t)
	}
	word := ir.IntOf(memSize(from))
	v, from = bitcast(emit, v, from, word), word
	if off > 0 {
		v = emit(ir.LShr, from, 0, v, emit(ir.Const, from, uint64(off)*8))
	}
	n := ir.IntOf(memSize(t))
	return bitcast(emit, emit(ir.IntTrunc, n, 0, v), n, t)
}
