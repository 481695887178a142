package cuda

import (
	"fmt"
	"strings"

	"minfer/metal/msl/ir"
)

// piece is one machine access of 1, 2, 4, 8 or 16 bytes.
type piece struct{ off, size int }

// pieces cuts n bytes at an address of the alignment into accesses, the widest
// first.
func pieces(n, align, most int) []piece {
	var list []piece
	for off := 0; off < n; {
		size := min(align, most)
		for size > n-off || off%size != 0 {
			size /= 2
		}
		list = append(list, piece{off, size})
		off += size
	}
	return list
}

// accessType is the C++ type of a piece.
func accessType(size int) string {
	return map[int]string{1: "u8", 2: "u16", 4: "u32", 8: "uint2", 16: "uint4"}[size]
}

// limit is the widest piece for an access: types other than plain integers would
// invite the compiler to reason about aliasing, so wide ones are vectors of u32;
// private memory has no address that several lanes share, so its width is free.
func limit(m *ir.Mem) int {
	if m.Coherent || m.Space == ir.Thread {
		return 4
	}
	return 16
}

func address(p string, off int) string {
	if off == 0 {
		return p
	}
	return fmt.Sprintf("(%s + %d)", p, off)
}

func (e *emitter) memory(i *ir.Instr) {
	switch i.Op {
	case ir.Load:
		e.load(i)
	case ir.Store:
		e.store(i)
	case ir.SgLoad:
		e.sgLoad(i)
	case ir.SgStore:
		e.sgStore(i)
	default:
		e.atomic(i)
	}
}

// readPiece is the expression that loads a piece.
func readPiece(m *ir.Mem, p string, q piece) string {
	t, at := accessType(q.size), address(p, q.off)
	switch {
	case m.Space == ir.Thread:
		return fmt.Sprintf("ldt<%s>(%s)", t, at)
	case m.Coherent:
		return fmt.Sprintf("*(const volatile %s*)%s", t, at)
	}
	return fmt.Sprintf("*(const %s*)%s", t, at)
}

func (e *emitter) load(i *ir.Instr) {
	m := i.Mem
	p := e.v(i.Args[0])
	size := m.Elem.Size()
	// words has, by byte offset of a piece or of a 32-bit word of it, the name.
	type word struct {
		off, size int
		name      string
	}
	var words []word
	for _, q := range pieces(size*m.Count, m.Align, limit(m)) {
		name := e.fresh("l")
		e.line("const %s %s = %s;", accessType(q.size), name, readPiece(m, p, q))
		if q.size <= 4 {
			words = append(words, word{q.off, q.size, name})
			continue
		}
		for k := range q.size / 4 {
			words = append(words, word{q.off + 4*k, 4, name + "." + string("xyzw"[k])})
		}
	}
	for k, x := range i.Res {
		lo, hi := k*size, (k+1)*size
		t := "u32"
		if size == 8 {
			t = "u64"
		}
		var parts []string
		for _, w := range words {
			switch {
			case w.off+w.size <= lo || w.off >= hi:
			case w.off < lo || w.off == lo && w.size > size:
				parts = append(parts, fmt.Sprintf("(%s >> %d)", w.name, 8*(lo-w.off)))
			case w.off == lo && w.size == size:
				parts = append(parts, w.name)
			default:
				parts = append(parts, fmt.Sprintf("(%s)%s << %d", t, w.name, 8*(w.off-lo)))
			}
		}
		e.defineValue(x, "%s", fromBits(m.Elem, strings.Join(parts, " | "), size))
	}
}

// fromBits makes a value of an integer expression that may have more bits.
func fromBits(t ir.Type, expr string, size int) string {
	switch t {
	case ir.I1:
		return "((" + expr + ") & 255) != 0"
	case ir.F32:
		return "bits(" + expr + ")"
	case ir.Ptr:
		return "(char*)(" + expr + ")"
	}
	return expr // the definition cuts it
}

// toBits is a value's bits as u32, or u64 for 8 bytes.
func (e *emitter) toBits(x ir.Value) string {
	switch e.typ(x) {
	case ir.F32:
		return "bits(" + e.v(x) + ")"
	case ir.I32, ir.I64:
		return e.v(x)
	case ir.Ptr:
		return "(u64)" + e.v(x)
	}
	return "(u32)" + e.v(x)
}

func (e *emitter) store(i *ir.Instr) {
	m := i.Mem
	p := e.v(i.Args[0])
	size := m.Elem.Size()
	// bytes gives n <= 4 bytes from off on as an expression.
	bytes := func(off, n int) string {
		var parts []string
		for at := off; at < off+n; {
			k := at / size
			lo := k * size
			b := e.toBits(i.Args[1+k])
			if at > lo {
				b = fmt.Sprintf("(u32)(%s >> %d)", b, 8*(at-lo))
			} else if size == 8 {
				b = "(u32)" + b
			}
			if at > off {
				b = fmt.Sprintf("%s << %d", b, 8*(at-off))
			}
			parts = append(parts, b)
			at = min(lo+size, off+n)
		}
		return strings.Join(parts, " | ")
	}
	for _, q := range pieces(size*m.Count, m.Align, limit(m)) {
		t, at := accessType(q.size), address(p, q.off)
		var val string
		if q.size <= 4 {
			val = bytes(q.off, q.size)
		} else {
			var parts []string
			for k := range q.size / 4 {
				parts = append(parts, bytes(q.off+4*k, 4))
			}
			val = "make_" + t + "(" + strings.Join(parts, ", ") + ")"
		}
		switch {
		case m.Space == ir.Thread:
			e.line("stt<%s>(%s, (%s)(%s));", t, at, t, val)
		case m.Coherent:
			e.line("*(volatile %s*)%s = %s;", t, at, val)
		default:
			e.line("*(%s*)%s = %s;", t, at, val)
		}
	}
}

var atomicFuncs = map[ir.AtomicOp]string{
	ir.AtomicAdd: "atomicAdd", ir.AtomicSub: "atomicAdd", ir.AtomicAnd: "atomicAnd", ir.AtomicOr: "atomicOr", ir.AtomicXor: "atomicXor",
	ir.AtomicSMin: "atomicMin", ir.AtomicSMax: "atomicMax", ir.AtomicUMin: "atomicMin", ir.AtomicUMax: "atomicMax",
	ir.AtomicExchange: "atomicExch",
}

// atomic prints relaxed atomics; floats go by their bits.
func (e *emitter) atomic(i *ir.Instr) {
	m := i.Mem
	t := "u32"
	if m.Elem == ir.I64 {
		t = "u64"
	}
	p := e.v(i.Args[0])
	value := func(k int) string { return e.toBits(i.Args[k]) }
	define := func(expr string) {
		if len(i.Res) > 0 {
			e.define(i, "%s", fromBits(m.Elem, expr, m.Elem.Size()))
		} else {
			e.line("%s;", expr)
		}
	}
	switch i.Op {
	case ir.AtomicLoad:
		define(fmt.Sprintf("*(const volatile %s*)%s", t, p))
	case ir.AtomicStore:
		e.line("*(volatile %s*)%s = %s;", t, p, value(1))
	case ir.AtomicCAS:
		define(fmt.Sprintf("atomicCAS((%s*)%s, %s, %s)", t, p, value(1), value(2)))
	default:
		v := value(1)
		switch op := ir.AtomicOp(i.Imm); op {
		case ir.AtomicFAdd:
			e.define(i, "atomic_fadd(%s, %s)", p, e.v(i.Args[1]))
			return
		case ir.AtomicFSub:
			e.define(i, "atomic_fadd(%s, -%s)", p, e.v(i.Args[1]))
			return
		case ir.AtomicSub:
			v = "(" + t + ")0 - " + v
			define(fmt.Sprintf("atomicAdd((%s*)%s, %s)", t, p, v))
		case ir.AtomicSMin, ir.AtomicSMax:
			s := "s" + t[1:]
			define(fmt.Sprintf("%s((%s*)%s, (%s)%s)", atomicFuncs[op], s, p, s, v))
		default:
			define(fmt.Sprintf("%s((%s*)%s, %s)", atomicFuncs[op], t, p, v))
		}
	}
}

// sgPlace is the address of a lane's element of a matrix in memory. args are
// pointer, stride, column, row, transpose.
func (e *emitter) sgPlace(m *ir.Mem, args []ir.Value, elem int, flag string) string {
	name := "sg_at"
	if e.tensor.on {
		name = "tc_at"
	}
	return fmt.Sprintf("%s(%s, (s64)%s, (s64)%s, (s64)%s, %s, %d, %d)", name, e.v(args[0]), e.v(args[1]), e.v(args[2]), e.v(args[3]), flag, elem, m.Elem.Size())
}

func (e *emitter) sgLoad(i *ir.Instr) {
	e.simd = true
	x := i.Res[0]
	flag, pair := e.v(i.Args[4]), false
	if e.tensor.on {
		e.tensor.turned[x] = e.tensor.only(x, 1)
		flag, pair = e.tensorPlace(i.Mem, i.Args, e.tensor.turned[x])
	}
	var words [2]string
	switch size := i.Mem.Elem.Size(); {
	case pair:
		name := e.fresh("l")
		t := accessType(2 * size)
		e.line("const %s %s = *(const %s*)%s;", t, name, t, e.sgPlace(i.Mem, i.Args, 0, flag))
		words = [2]string{name + ".x", name + ".y"}
		if size == 2 {
			words = [2]string{"(u16)" + name, "(u16)(" + name + " >> 16)"}
		}
	default:
		for k := range words {
			words[k] = fmt.Sprintf("*(const %s*)%s", accessType(size), e.sgPlace(i.Mem, i.Args, k, flag))
		}
	}
	convert := map[ir.Type]string{ir.F16: "h2f", ir.BF16: "b2f", ir.F32: "bits"}[i.Mem.Elem]
	e.define(i, "sgmat{%s(%s), %s(%s)}", convert, words[0], convert, words[1])
	if e.tensor.on {
		e.loaded(x)
	}
}

func (e *emitter) sgStore(i *ir.Instr) {
	e.simd = true
	flag, pair := e.v(i.Args[5]), false
	if e.tensor.on {
		flag, pair = e.tensorPlace(i.Mem, i.Args[1:], false)
	}
	v := e.v(i.Args[0])
	if pair && i.Mem.Elem == ir.F32 {
		e.line("*(uint2*)%s = make_uint2(bits(%s.x), bits(%s.y));", e.sgPlace(i.Mem, i.Args[1:], 0, flag), v, v)
		return
	}
	for k, name := range []string{"x", "y"} {
		at := e.sgPlace(i.Mem, i.Args[1:], k, flag)
		switch t := i.Mem.Elem; t {
		case ir.F32:
			e.line("*(u32*)%s = bits(%s.%s);", at, v, name)
		default:
			e.line("*(u16*)%s = %s;", at, rounded(t, v+"."+name))
		}
	}
}
