package pass

import (
	"encoding/binary"

	"minfer/metal/msl/ir"
)

// Simplify folds constants, applies identities, shares common subexpressions
// (pure operations, and loads of one address with no write to that kind of memory, no barrier and no
// collective between: for a race checker these are one access), removes branches with a known
// condition and blocks that nothing breaks out of, turns small conditionals into selects and
// replaces carried values and results that are always the same. Constants and
// object pointers move to the start of the body, where each is there once.
//
// All rewritings keep the bits of every result, but that x + 0 is x where fast math
// is on (ContractAny), also for x = -0. It reports whether something
// changed.
func Simplify(f *ir.Func) bool {
	s := &simplifier{
		f: f, repl: make([]ir.Value, len(f.Types)), def: make([]*ir.Instr, len(f.Types)), depth: make([]int32, len(f.Types)),
		entry: map[key]ir.Value{}, table: map[key]ir.Value{}, loads: map[loadKey][]ir.Value{}, to: leaves(f), breaks: map[*ir.Instr][]*ir.Instr{}, continues: map[*ir.Instr]int{},
	}
	var out []*ir.Instr
	s.list(f.Body.Instrs, &out)
	f.Body.Instrs = append(s.pre, out...)
	walk(f.Body, func(i *ir.Instr) {
		for k, a := range i.Args {
			i.Args[k] = s.get(a)
		}
	})
	return s.changed
}

// key names a pure computation.
type key struct {
	op   ir.Op
	t    ir.Type
	imm  uint64
	args [3]ir.Value
}

// loadKey names a load. epoch changes with each possible write.
type loadKey struct {
	ptr          ir.Value
	elem         ir.Type
	space        ir.Space
	count, align int
	epoch        int32
}

// undone is an entry of the tables that ends with its region.
type undone struct {
	key  key
	load loadKey
}

type simplifier struct {
	f     *ir.Func
	repl  []ir.Value  // replaced value -> replacement
	def   []*ir.Instr // of values already emitted
	depth []int32     // nesting of the region that defines a value
	level int32
	pre   []*ir.Instr // the start of the body
	entry map[key]ir.Value
	table map[key]ir.Value
	loads map[loadKey][]ir.Value
	undo  []undone
	epoch [ir.Thread + 1]int32 // by space
	last  int32                // the newest epoch
	to    map[*ir.Instr][]*ir.Instr
	// What was emitted so far for each target.
	breaks    map[*ir.Instr][]*ir.Instr
	continues map[*ir.Instr]int
	changed   bool
}

func (s *simplifier) get(v ir.Value) ir.Value {
	for s.repl[v] != 0 {
		v = s.repl[v]
	}
	return v
}

func (s *simplifier) replace(v, by ir.Value) {
	if v != by {
		s.repl[v] = by
		s.changed = true
	}
}

func (s *simplifier) typ(v ir.Value) ir.Type { return s.f.Types[v] }

func (s *simplifier) newValue(t ir.Type, def *ir.Instr) ir.Value {
	v := s.f.NewValue(t)
	s.repl = append(s.repl, 0)
	s.def = append(s.def, def)
	s.depth = append(s.depth, s.level)
	return v
}

// constant gives the value of a constant, made at the start of the body if new.
func (s *simplifier) constant(t ir.Type, bits uint64) ir.Value {
	return s.atEntry(ir.Const, t, mask(t, bits), 0)
}

// atEntry gives the value of an operation without operands, v where it is new
// and v is not 0.
func (s *simplifier) atEntry(op ir.Op, t ir.Type, imm uint64, v ir.Value) ir.Value {
	k := key{op: op, t: t, imm: imm}
	if w, ok := s.entry[k]; ok {
		return w
	}
	i := &ir.Instr{Op: op, Imm: imm}
	if v == 0 {
		v = s.newValue(t, i)
	}
	i.Res = []ir.Value{v}
	s.def[v], s.depth[v] = i, 0
	s.pre = append(s.pre, i)
	s.entry[k] = v
	return v
}

// bits gives the bits of a constant value.
func (s *simplifier) bits(v ir.Value) (uint64, bool) {
	if d := s.def[v]; d != nil && d.Op == ir.Const {
		return d.Imm, true
	}
	return 0, false
}

func (s *simplifier) is(v ir.Value, bits uint64) bool {
	b, ok := s.bits(v)
	return ok && b == bits
}

// scoped runs f with a table of its own on top, one region deeper.
func (s *simplifier) scoped(f func()) {
	mark := len(s.undo)
	s.level++
	f()
	s.level--
	for k := len(s.undo) - 1; k >= mark; k-- {
		if u := &s.undo[k]; u.load.ptr != 0 {
			delete(s.loads, u.load)
		} else {
			delete(s.table, u.key)
		}
	}
	s.undo = s.undo[:mark]
}

// list emits simplified instructions to out and reports whether the last of them
// leaves the region (a Yield does not count and is not emitted: see arm).
func (s *simplifier) list(in []*ir.Instr, out *[]*ir.Instr) bool {
	for _, i := range in {
		for k, a := range i.Args {
			i.Args[k] = s.get(a)
		}
		if s.instr(i, out) {
			return true
		}
	}
	return false
}

func (s *simplifier) emit(i *ir.Instr, out *[]*ir.Instr) {
	for _, v := range i.Res {
		s.def[v], s.depth[v] = i, s.level
	}
	*out = append(*out, i)
}

func (s *simplifier) instr(i *ir.Instr, out *[]*ir.Instr) (left bool) {
	switch i.Op {
	case ir.If:
		return s.cond(i, out)
	case ir.Loop:
		return s.loop(i, out)
	case ir.Block:
		return s.block(i, out)
	case ir.Yield:
		s.emit(i, out)
		return true
	case ir.Return:
		s.emit(i, out)
		return true
	case ir.Break:
		s.breaks[i.Target] = append(s.breaks[i.Target], i)
		s.emit(i, out)
		return true
	case ir.Continue:
		s.continues[i.Target]++
		s.emit(i, out)
		return true
	case ir.Const, ir.Undef, ir.PtrParam, ir.PtrStatic, ir.PtrAlloca, ir.PtrTable, ir.Grid:
		if v := s.atEntry(i.Op, s.typ(i.Res[0]), i.Imm, i.Res[0]); v != i.Res[0] {
			s.repl[i.Res[0]] = v
		}
		return false
	case ir.Load:
		s.load(i, out)
		return false
	}
	s.writes(i)
	if i.Op.Pure() {
		s.pure(i, out)
	} else {
		s.emit(i, out)
	}
	return false
}

// writes starts new epochs for the memory that i may change, or order.
func (s *simplifier) writes(i *ir.Instr) {
	s.last++
	for space, w := range written(i) {
		if w {
			s.epoch[space] = s.last
		}
	}
}

// written gives the spaces that i may change or order.
func written(i *ir.Instr) (w [ir.Thread + 1]bool) {
	switch op := i.Op; {
	case op == ir.Store, op >= ir.AtomicLoad && op <= ir.AtomicCAS:
		w[i.Mem.Space] = true
	case op == ir.Declare:
		w[ir.Thread] = true
	case op >= ir.SimdReduce && op <= ir.Fence, op == ir.SgLoad, op == ir.SgStore:
		w[ir.Device], w[ir.Threadgroup] = true, true
	}
	return w
}

// joined starts new epochs where one of the paths that meet here has.
func (s *simplifier) joined(before [ir.Thread + 1]int32, paths ...[ir.Thread + 1]int32) {
	s.epoch = before
	s.last++
	for _, p := range paths {
		for space := range p {
			if p[space] != before[space] {
				s.epoch[space] = s.last
			}
		}
	}
}

func (s *simplifier) load(i *ir.Instr, out *[]*ir.Instr) {
	if data := s.tableData(i); data != nil {
		size := i.Mem.Elem.Size()
		for n, r := range i.Res {
			var w [8]byte
			copy(w[:], data[n*size:(n+1)*size])
			s.replace(r, s.constant(i.Mem.Elem, binary.LittleEndian.Uint64(w[:])))
		}
		return
	}
	if i.Mem.Coherent {
		s.emit(i, out)
		return
	}
	k := loadKey{i.Args[0], i.Mem.Elem, i.Mem.Space, i.Mem.Count, i.Mem.Align, s.epoch[i.Mem.Space]}
	was := s.loads[k]
	if was != nil {
		for n, r := range i.Res {
			s.replace(r, was[n])
		}
		return
	}
	s.emit(i, out)
	s.loads[k] = i.Res
	s.undo = append(s.undo, undone{load: k})
}

// tableData gives the bytes that a load at a constant place of a table reads.
func (s *simplifier) tableData(i *ir.Instr) []byte {
	if i.Mem.Space != ir.Constant {
		return nil
	}
	p, off := i.Args[0], uint64(0)
	if q, c, ok := s.constOp(p, ir.PtrAdd); ok {
		p, off = q, c
	}
	d := s.defOf(p, ir.PtrTable)
	if d == nil || i.Mem.Elem == ir.Ptr {
		return nil
	}
	data := s.f.Tables[d.Imm].Data
	n := uint64(i.Mem.Count * i.Mem.Elem.Size())
	if off > uint64(len(data)) || n > uint64(len(data))-off {
		return nil // an overrun, for the device to see
	}
	return data[off : off+n]
}

// pure folds and shares an operation with one result.
func (s *simplifier) pure(i *ir.Instr, out *[]*ir.Instr) {
	v := s.op(i, out)
	if v != i.Res[0] {
		s.replace(i.Res[0], v)
	}
}

// op gives the value that the operation computes: an existing one, or i's own
// after emitting i.
func (s *simplifier) op(i *ir.Instr, out *[]*ir.Instr) ir.Value {
	if v := s.fold(i, out); v != 0 {
		return s.get(v)
	}
	k := key{op: i.Op, t: s.typ(i.Res[0]), imm: i.Imm}
	copy(k.args[:], i.Args)
	if v, ok := s.table[k]; ok {
		return v
	}
	s.emit(i, out)
	s.table[k] = i.Res[0]
	s.undo = append(s.undo, undone{key: k})
	return i.Res[0]
}

// make simplifies and emits a new operation in the place of i.
func (s *simplifier) make(at *ir.Instr, out *[]*ir.Instr, op ir.Op, t ir.Type, imm uint64, args ...ir.Value) ir.Value {
	i := &ir.Instr{Op: op, Imm: imm, Args: args, Pos: at.Pos}
	i.Res = []ir.Value{s.newValue(t, nil)}
	return s.op(i, out)
}

// arm simplifies a region of an If in its own scope; yields is the operand list
// of its Yield, nil where it leaves.
func (s *simplifier) arm(r *ir.Region) (yield *ir.Instr) {
	s.scoped(func() {
		var out []*ir.Instr
		s.list(r.Instrs, &out)
		r.Instrs = out
	})
	if t := terminator(r); t != nil && t.Op == ir.Yield {
		return t
	}
	return nil
}

func (s *simplifier) cond(i *ir.Instr, out *[]*ir.Instr) bool {
	if c, ok := s.bits(i.Args[0]); ok {
		s.changed = true
		return s.splice(i.Body[1-c&1], i, out)
	}
	var y [2]*ir.Instr
	before := s.epoch
	y[0] = s.arm(i.Body[0])
	then := s.epoch
	s.epoch = before
	y[1] = s.arm(i.Body[1])
	s.joined(before, then, s.epoch)
	if y[0] != nil && y[1] != nil {
		for k := 0; k < len(i.Res); k++ {
			if a := s.get(y[0].Args[k]); a == s.get(y[1].Args[k]) {
				s.replace(i.Res[k], a)
				drop(&i.Res, k)
				drop(&y[0].Args, k)
				drop(&y[1].Args, k)
				k--
			}
		}
		if s.selects(i, y, out) {
			return false
		}
		s.emit(i, out)
		return false
	}
	// One arm leaves: the other goes on behind the If, without nesting.
	for k, r := range i.Body {
		if y[k] == nil {
			continue
		}
		rest := r.Instrs[:len(r.Instrs)-1]
		if len(rest) == 0 && len(i.Res) == 0 {
			s.emit(i, out)
			return false
		}
		s.changed = true
		results := i.Res
		i.Res = nil
		r.Instrs = []*ir.Instr{{Op: ir.Yield, Pos: y[k].Pos}}
		s.emit(i, out)
		s.adopt(rest, out)
		for n, v := range results {
			s.replace(v, s.get(y[k].Args[n]))
		}
		return false
	}
	// Both leave.
	s.changed = true
	rest := i.Body[1].Instrs
	i.Res = nil
	i.Body[1].Instrs = []*ir.Instr{{Op: ir.Yield, Pos: i.Pos}}
	s.emit(i, out)
	s.adopt(rest, out)
	return true
}

func drop(vs *[]ir.Value, k int) {
	out := append([]ir.Value(nil), (*vs)[:k]...)
	*vs = append(out, (*vs)[k+1:]...)
}

// adopt emits instructions that were simplified in an inner region.
func (s *simplifier) adopt(list []*ir.Instr, out *[]*ir.Instr) {
	for _, i := range list {
		s.emit(i, out)
	}
}

// splice simplifies a region of construct i into out, in place of i.
func (s *simplifier) splice(r *ir.Region, i *ir.Instr, out *[]*ir.Instr) bool {
	if !s.list(r.Instrs, out) {
		return false
	}
	t := (*out)[len(*out)-1]
	if t.Op != ir.Yield {
		return true
	}
	*out = (*out)[:len(*out)-1]
	for k, v := range i.Res {
		s.replace(v, s.get(t.Args[k]))
	}
	return false
}

// cheap tells operations that cost no more than the branch around them.
func cheap(op ir.Op) bool {
	switch op {
	case ir.SDiv, ir.UDiv, ir.SRem, ir.URem, ir.FDiv, ir.FRem, ir.Sqrt, ir.Rsqrt:
		return false
	}
	return op < ir.Exp || op > ir.Erf
}

// maxSelect bounds the operations that selects make unconditional.
const maxSelect = 6

// selects turns an If whose arms only compute a little into selects.
func (s *simplifier) selects(i *ir.Instr, y [2]*ir.Instr, out *[]*ir.Instr) bool {
	n := len(i.Res)
	for _, r := range i.Body {
		for _, j := range r.Instrs[:len(r.Instrs)-1] {
			if !j.Op.Pure() || !cheap(j.Op) {
				return false
			}
			n++
		}
	}
	for _, v := range i.Res {
		if s.typ(v).IsSg() {
			return false
		}
	}
	if n > maxSelect {
		return false
	}
	s.changed = true
	for _, r := range i.Body {
		for _, j := range r.Instrs[:len(r.Instrs)-1] {
			for k, a := range j.Args {
				j.Args[k] = s.get(a)
			}
			s.pure(j, out)
		}
	}
	for k, v := range i.Res {
		w := s.make(i, out, ir.Select, s.typ(v), 0, i.Args[0], s.get(y[0].Args[k]), s.get(y[1].Args[k]))
		s.replace(v, w)
	}
	return true
}

func (s *simplifier) loop(i *ir.Instr, out *[]*ir.Instr) bool {
	b := i.Body[0]
	// A carried value that never changes is its initial value.
	same := func(k int) bool {
		for _, l := range s.to[i] {
			if l.Op != ir.Continue {
				continue
			}
			if a := s.get(l.Args[k]); a != b.Args[k] && a != i.Args[k] {
				return false
			}
		}
		return true
	}
	for k := 0; k < len(b.Args); k++ {
		if same(k) {
			s.replace(b.Args[k], i.Args[k])
			s.changed = true
			drop(&b.Args, k)
			drop(&i.Args, k)
			for _, l := range s.to[i] {
				if l.Op == ir.Continue {
					drop(&l.Args, k)
				}
			}
			k--
		}
	}
	// What the body writes, it may have written before each load in it.
	before := s.epoch
	inside := before
	walk(b, func(j *ir.Instr) {
		for space, w := range written(j) {
			if w {
				inside[space] = -1
			}
		}
	})
	s.joined(before, inside)
	defer func() { s.joined(before, inside) }()
	s.scoped(func() {
		for _, a := range b.Args {
			s.depth[a] = s.level
		}
		var body []*ir.Instr
		s.list(b.Instrs, &body)
		b.Instrs = body
	})
	if s.continues[i] == 0 {
		// The body runs once.
		for k, a := range b.Args {
			s.replace(a, i.Args[k])
		}
		b.Args, i.Args = nil, nil
		i.Op, i.Imm = ir.Block, 0
		s.changed = true
	}
	return s.results(i, out)
}

// results replaces results of a Loop or Block that are the same on all ways out,
// and emits it. With no way out, what follows is not reached.
func (s *simplifier) results(i *ir.Instr, out *[]*ir.Instr) bool {
	bs := s.breaks[i]
	for k := 0; k < len(i.Res) && len(bs) > 0; k++ {
		v := s.get(bs[0].Args[k])
		ok := s.depth[v] <= s.level
		for _, b := range bs {
			ok = ok && s.get(b.Args[k]) == v
		}
		if ok {
			s.replace(i.Res[k], v)
			drop(&i.Res, k)
			for _, b := range bs {
				drop(&b.Args, k)
			}
			k--
		}
	}
	s.emit(i, out)
	if len(bs) == 0 && i.Op == ir.Block {
		// Everything in it leaves further out.
		*out = (*out)[:len(*out)-1]
		s.changed = true
		s.adopt(i.Body[0].Instrs, out)
		return true
	}
	return false
}

// maxNested bounds the ways out of a block that become nested conditionals.
const maxNested = 16

// nestable tells whether all ways out of a block stand at the end of its body or
// of one arm of a conditional directly in it.
func (s *simplifier) nestable(i *ir.Instr) bool {
	bs := s.breaks[i]
	if len(bs) > maxNested {
		return false
	}
	n := 0
	for _, j := range i.Body[0].Instrs {
		if j.Op == ir.Break && j.Target == i {
			n++
		}
		if j.Op != ir.If || len(j.Res) > 0 {
			continue
		}
		for k, r := range j.Body {
			if t := terminator(r); t.Op == ir.Break && t.Target == i && terminator(j.Body[1-k]).Op == ir.Yield {
				n++
			}
		}
	}
	return n == len(bs)
}

// nest turns the ways out of block i into results of conditionals:
//
//	if c { A; break v }; B; break w   becomes   r = if c { A; yield v } else { B; yield w }
//
// It gives the instructions without the last way out and what they yield; left
// where the end goes elsewhere, which then stays as it is.
func (s *simplifier) nest(list []*ir.Instr, i *ir.Instr) (out []*ir.Instr, yield []ir.Value, left bool) {
	for k, j := range list {
		if j.Op != ir.If {
			continue
		}
		for n, r := range j.Body {
			t := terminator(r)
			if t.Op != ir.Break || t.Target != i {
				continue
			}
			rest, vals, left := s.nest(list[k+1:], i)
			t.Op, t.Target = ir.Yield, nil
			o := j.Body[1-n]
			o.Instrs = append(o.Instrs[:len(o.Instrs)-1:len(o.Instrs)-1], rest...)
			if !left {
				o.Instrs = append(o.Instrs, &ir.Instr{Op: ir.Yield, Args: vals, Pos: t.Pos})
			}
			for _, v := range i.Res {
				j.Res = append(j.Res, s.newValue(s.typ(v), j))
			}
			return list[: k+1 : k+1], append([]ir.Value(nil), j.Res...), false
		}
	}
	t := list[len(list)-1]
	if t.Op == ir.Break && t.Target == i {
		return list[: len(list)-1 : len(list)-1], t.Args, false
	}
	return list, nil, true
}

func (s *simplifier) block(i *ir.Instr, out *[]*ir.Instr) bool {
	b := i.Body[0]
	s.scoped(func() {
		var body []*ir.Instr
		s.list(b.Instrs, &body)
		b.Instrs = body
	})
	if bs := s.breaks[i]; len(bs) == 1 && terminator(b) == bs[0] {
		s.changed = true
		s.adopt(b.Instrs[:len(b.Instrs)-1], out)
		for k, v := range i.Res {
			s.replace(v, s.get(bs[0].Args[k]))
		}
		return false
	} else if len(bs) > 0 && s.nestable(i) {
		s.changed = true
		list, vals, _ := s.nest(b.Instrs, i)
		s.adopt(list, out)
		for k, v := range i.Res {
			s.replace(v, vals[k])
		}
		return false
	}
	return s.results(i, out)
}
