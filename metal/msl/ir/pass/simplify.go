package pass

import (
	"encoding/binary"
	"sync"

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
	s := newSimplifier(f)
	defer s.release()
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

// simplifiers keep the tables of earlier runs: a kernel is simplified dozens of
// times.
var simplifiers = sync.Pool{New: func() any {
	return &simplifier{entry: map[key]ir.Value{}, table: map[key]ir.Value{}, loads: map[loadKey][]ir.Value{}, breaks: map[*ir.Instr][]*ir.Instr{}, continues: map[*ir.Instr]int{}}
}}

func newSimplifier(f *ir.Func) *simplifier {
	s := simplifiers.Get().(*simplifier)
	n := len(f.Types)
	s.f, s.to, s.changed, s.level, s.last = f, leaves(f), false, 0, 0
	s.epoch = [ir.Thread + 1]int32{}
	s.repl = append(s.repl[:0], make([]ir.Value, n)...)
	s.def = append(s.def[:0], make([]*ir.Instr, n)...)
	s.depth = append(s.depth[:0], make([]int32, n)...)
	return s
}

// release forgets the function and keeps the room.
func (s *simplifier) release() {
	if len(s.repl) > 1<<16 {
		return // too much to keep
	}
	s.f, s.to, s.pre = nil, nil, nil
	clear(s.def)
	clear(s.entry)
	clear(s.table)
	clear(s.loads)
	clear(s.breaks)
	clear(s.continues)
	s.undo = s.undo[:0]
	simplifiers.Put(s)
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
