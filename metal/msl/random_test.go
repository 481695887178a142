package msl_test

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"minfer/metal/msl"
	"minfer/metal/msl/ir"
	"minfer/metal/msl/ir/pass"
	"minfer/metal/msl/lower"
	"minfer/metal/msl/parse"
	"minfer/metal/msl/pp"
	"minfer/metal/msl/sema"
	"minfer/metal/mtl/soft/interp"
	"minfer/metal/mtl/soft/lane"
	"minfer/metal/mtl/soft/mem"
	"minfer/metal/mtl/soft/san"

	"github.com/stretchr/testify/require"
)

var (
	programs     = flag.Int("programs", 60, "random programs that TestRandomPrograms compiles and runs")
	firstProgram = flag.Uint64("program", 0, "the first of them")
	programTime  = flag.Duration("programtime", 6*time.Second, "the time after which it starts no other")
)

const outWords = 24 // of each thread

// call evaluates a helper.
func (g *generator) call(t typ, depth int) (expr, bool) {
	if len(g.records) > 0 && g.one(3) {
		if e, ok := g.callMethod(t, depth); ok {
			return e, true
		}
	}
	for range 6 {
		if len(g.helpers) == 0 {
			return expr{}, false
		}
		h := g.helpers[g.r.IntN(len(g.helpers))]
		if h.ret == t && g.weight*h.cost < 3000 {
			if e, ok := g.callOf(h, depth, false); ok {
				return e, true
			}
		}
	}
	return expr{}, false
}

func (g *generator) callMethod(t typ, depth int) (expr, bool) {
	for _, o := range g.scope {
		if o.rec == nil || o.rec.method == nil || o.rec.method.ret != t || o.rec.method.mutates {
			continue
		}
		m := o.rec.method
		a := g.any(m.arg, depth)
		g.cost += 3
		return expr{t, fmt.Sprintf("%s.m(%s)", o.name, a.s), 18, func(h *thread) value {
			v := implicit(a.f(h), a.t, m.arg)
			old := h.this
			h.this = o.at(h)
			copy(h.mem[m.at:m.at+4], v[:])
			r := m.body(h)
			h.this = old
			return r
		}}, true
	}
	return expr{}, false
}

// callOf makes a call; only a statement may pass references.
func (g *generator) callOf(hp helper, depth int, refs bool) (expr, bool) {
	type argument struct {
		e expr
		p place
	}
	args := make([]argument, len(hp.params))
	var s []string
	for i, p := range hp.params {
		if p.ref != 0 {
			l, ok := g.place(&p.t, 1)
			if !refs || !ok || l.comps != nil || strings.HasSuffix(l.s, "]") && l.t.n == 1 && g.component(l) {
				return expr{}, false
			}
			args[i].p = l
			if p.ref == '*' {
				s = append(s, "&"+l.s)
			} else {
				s = append(s, l.s)
			}
			continue
		}
		e := g.expr(p.t, depth)
		if hp.template == "" {
			e = g.any(p.t, depth)
		}
		args[i].e = e
		s = append(s, e.s)
	}
	g.cost += hp.cost
	return expr{hp.ret, hp.name + hp.template + "(" + strings.Join(s, ", ") + ")", 18, func(h *thread) value {
		vs, addr := make([]value, len(args)), make([]int, len(args))
		for i, a := range args {
			if hp.params[i].ref != 0 {
				addr[i] = a.p.at(h)
			} else {
				vs[i] = implicit(a.e.f(h), a.e.t, hp.params[i].t)
			}
		}
		return hp.call(h, func() {
			for i, p := range hp.params {
				p.set(h, vs[i], addr[i])
			}
		})
	}}, true
}

func (g *generator) callStmt() (stmt, bool) {
	for range 6 {
		if len(g.helpers) == 0 {
			return nil, false
		}
		hp := g.helpers[g.r.IntN(len(g.helpers))]
		if g.weight*hp.cost > 3000 {
			continue
		}
		e, ok := g.callOf(hp, 2, true)
		if !ok {
			continue
		}
		if p, ok := g.place(&hp.ret, 0); ok && p.at != nil {
			// The place has a constant index or none, so a call can't move it.
			w := write(p)
			g.line("%s = %s;", p.s, e.s)
			return func(h *thread) flow {
				v := e.f(h)
				w(h, v)
				return next
			}, true
		}
		g.line("%s;", e.s)
		return func(h *thread) flow {
			e.f(h)
			return next
		}, true
	}
	return nil, false
}

// function adds a helper, perhaps a template.
func (g *generator) helper() {
	saved := *g
	defer func() { g.scope, g.depth, g.weight, g.cost, g.inFunc = saved.scope, 0, 1, 0, nil }()
	g.scope, g.depth, g.weight, g.cost, g.budget = nil, 0, 1, 1, 8
	hp := helper{name: g.name("f"), ret: g.typ()}
	g.inFunc = &hp.ret
	var s []string
	tparam := typ{}
	template := g.one(3)
	if template {
		tparam = g.typ()
		hp.template = fmt.Sprintf("<%d>", g.r.IntN(9))
	}
	for i := range 1 + g.r.IntN(3) {
		p := param{t: g.typ()}
		if template && i == 0 {
			p.t = tparam
		}
		name := g.name("p")
		off := g.cell(1)
		o := object{name: name, t: p.t, at: at(off)}
		text := p.t.String()
		if p.t == tparam {
			text = "T"
		}
		switch {
		case g.one(4):
			p.ref = choose[byte](g, '&', '*')
			o.at = func(h *thread) int { return int(h.mem[off]) }
			if p.ref == '*' {
				o.name = "(*" + name + ")"
			}
			p.set = func(h *thread, _ value, a int) { h.mem[off] = uint64(a) }
			s = append(s, fmt.Sprintf("thread %s %c%s", text, p.ref, name))
		default:
			p.set = func(h *thread, v value, _ int) { copy(h.mem[off:off+4], v[:]) }
			s = append(s, text+" "+name)
		}
		hp.params = append(hp.params, p)
		g.scope = append(g.scope, o)
	}
	if template {
		fmt.Fprintf(&g.b, "template <int N, typename T>\n")
		var n uint64
		fmt.Sscanf(hp.template, "<%d>", &n)
		keep := g.leaves
		g.leaves = append(g.leaves[:len(g.leaves):len(g.leaves)], expr{typ{kInt, 1}, "N", 20, func(*thread) value { return value{n} }})
		defer func() { g.leaves = keep }()
	}
	fmt.Fprintf(&g.b, "%s%s %s(%s) {\n", choose(g, "static ", "inline ", ""), hp.ret, hp.name, strings.Join(s, ", "))
	g.depth = -1
	body := g.block(5)
	g.depth = 0
	e := g.expr(hp.ret, 3)
	g.line("return %s;", e.s)
	g.b.WriteString("}\n")
	hp.cost = 4 * g.cost
	hp.call = func(h *thread, set func()) value {
		set()
		if body(h) == returns {
			return h.result
		}
		return e.f(h)
	}
	g.helpers = append(g.helpers, hp)
}

// record adds a struct with a method.
func (g *generator) record() {
	rec := &record{name: g.name("S"), method: &method{ret: g.typ(), arg: g.typ(), at: g.cell(1)}}
	fmt.Fprintf(&g.b, "struct %s {\n", rec.name)
	var scope []object
	for k := range 1 + g.r.IntN(4) {
		t := g.typ()
		rec.fields = append(rec.fields, t)
		scope = append(scope, object{name: fmt.Sprintf("f%d", k), t: t, fixed: true, at: func(h *thread) int { return h.this + 4*k }})
		g.line("%s f%d;", t, k)
	}
	saved := g.scope
	g.scope = append(scope, object{name: "a", t: rec.method.arg, fixed: true, at: at(rec.method.at)})
	e := g.expr(rec.method.ret, 3)
	g.line("%s m(%s a) const { return %s; }", rec.method.ret, rec.method.arg, e.s)
	g.b.WriteString("};\n")
	g.scope = saved
	rec.method.body = e.f
	g.records = append(g.records, rec)
}

// A phase runs for all threads of a threadgroup before the next begins: what barriers and simdgroup
// functions need.
type phase func(threads []*thread)

type program struct {
	text   string
	phases []phase
	cells  int
	size   int // of a threadgroup
	grid   int // threads
	ints   []uint32
	floats []float32
	consts map[string]any
}

func generate(seed uint64) *program {
	g := &generator{r: rand.New(rand.NewPCG(seed, 0x6d736c)), weight: 1}
	p := &program{size: choose(g, 32, 64, 96, 40, 7, 33), consts: map[string]any{}}
	p.grid = p.size + g.r.IntN(p.size+1)
	for i := range 64 {
		p.ints = append(p.ints, g.r.Uint32()>>g.r.IntN(32))
		p.floats = append(p.floats, float32(g.r.IntN(20000)-10000)/64)
		_ = i
	}
	g.b.WriteString(`#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
static float number(float x) { return x == x ? x : 0.0f; }
static half number(half x) { return x == x ? x : half(0); }
template <typename T, int n> static vec<T, n> number(vec<T, n> x) { return select(vec<T, n>(0), x, x == x); }
`)
	g.constants(p)
	for range g.r.IntN(3) {
		g.record()
	}
	for range g.r.IntN(5) {
		g.helper()
	}
	g.b.WriteString(`kernel void k(device const int *in, device const float *fin, device uint *out, constant uint4 &args, device uint *scratch,
	uint gid [[thread_position_in_grid]], uint lid [[thread_position_in_threadgroup]], uint tgid [[threadgroup_position_in_grid]],
	ushort lane [[thread_index_in_simdgroup]], ushort sg [[simdgroup_index_in_threadgroup]], uint width [[threads_per_threadgroup]]) {
	out += gid * ` + fmt.Sprint(outWords) + `;
`)
	leaf := func(s string, k kind, f func(*thread) uint64) {
		g.leaves = append(g.leaves, expr{typ{k, 1}, s, 18, func(h *thread) value { return value{f(h)} }})
	}
	leaf("gid", kUint, func(h *thread) uint64 { return h.gid })
	leaf("lid", kUint, func(h *thread) uint64 { return h.lid })
	leaf("lane", kUshort, func(h *thread) uint64 { return h.lane })
	leaf("sg", kUshort, func(h *thread) uint64 { return h.lid / 32 })
	leaf("tgid", kUint, func(h *thread) uint64 { return h.g.id })
	leaf("args.y", kUint, func(h *thread) uint64 { return uint64(p.ints[1]) })
	for range 3 {
		i := g.index(64, 2)
		leaf("in["+i.s+"]", kInt, func(h *thread) uint64 { return wrap(uint64(p.ints[i.f(h)[0]]), kInt) })
		j := g.index(64, 2)
		leaf("fin["+j.s+"]", kFloat, func(h *thread) uint64 { return fromF(p.floats[j.f(h)[0]]) })
	}
	if g.one(2) {
		g.memory(p)
	}
	g.budget = 40
	var shared int
	for range 3 + g.r.IntN(4) {
		g.depth = 0
		var ss []stmt
		for range 1 + g.r.IntN(4) {
			s, _ := g.stmt()
			ss = append(ss, s)
		}
		body := sequence(ss)
		p.phases = append(p.phases, func(ts []*thread) {
			for _, h := range ts {
				body(h)
			}
		})
		switch g.r.IntN(4) {
		case 0:
			g.simd(p)
		case 1:
			if shared < 3 {
				shared++
				g.exchange(p)
			}
		}
	}
	g.finish(p)
	g.b.WriteString("}\n")
	p.text, p.cells = g.b.String(), g.cells
	return p
}

// constants declares tables and function constants.
func (g *generator) constants(p *program) {
	for i, k := range []kind{kInt, kBool, kFloat, kUshort} {
		if !g.one(2) {
			continue
		}
		name := fmt.Sprintf("fc%d", i)
		fmt.Fprintf(&g.b, "constant %s %s [[function_constant(%d)]];\n", kindNames[k], name, i)
		var v value
		switch k {
		case kBool:
			b := g.one(2)
			p.consts[name], v = b, value{truth(b)}
		case kFloat:
			p.consts[name], v = float32(1.5), value{fromF(1.5)}
		default:
			n := g.r.IntN(100)
			p.consts[name], v = n, value{uint64(n)}
		}
		g.leaves = append(g.leaves, expr{typ{k, 1}, name, 20, func(*thread) value { return v }})
	}
	for i, k := range []kind{kUchar, kHalf, kShort} {
		var s []string
		var vs []value
		for range 8 {
			e := g.literal(k)
			s = append(s, e.s)
			vs = append(vs, e.f(nil))
		}
		fmt.Fprintf(&g.b, "constant %s table%d[8] = {%s};\n", kindNames[k], i, strings.Join(s, ", "))
		g.leaves = append(g.leaves, g.literal(kInt))
		x := g.index(8, 0)
		g.leaves = append(g.leaves, expr{typ{k, 1}, fmt.Sprintf("table%d[%s]", i, x.s), 18, func(h *thread) value { return vs[x.f(h)[0]] }})
	}
}

// simd adds a declaration with a simdgroup function.
func (g *generator) simd(p *program) {
	t := typ{choose(g, kInt, kUint, kShort, kUchar, kInt, kUint), choose(g, 1, 1, 1, 2, 4)}
	e := g.expr(t, 3)
	fns := []string{"simd_sum", "simd_min", "simd_max", "simd_and", "simd_or", "simd_xor", "simd_prefix_inclusive_sum", "simd_prefix_exclusive_sum", "simd_broadcast_first"}
	if p.size%32 == 0 && p.grid%32 == 0 {
		fns = append(fns, "simd_shuffle", "simd_shuffle_xor", "simd_shuffle_up", "simd_shuffle_down", "simd_shuffle_rotate_up", "simd_shuffle_rotate_down", "simd_broadcast")
	}
	fn := fns[g.r.IntN(len(fns))]
	name, off, tmp := g.name("v"), g.cell(1), g.cell(1)
	second, index := "", expr{}
	switch {
	case fn == "simd_shuffle":
		index = g.index(32, 3)
		second = ", ushort(" + index.s + ")"
	case strings.HasPrefix(fn, "simd_shuffle"), fn == "simd_broadcast":
		index = g.index(32, 0)
		second = ", " + index.s
	}
	g.line("%s %s = %s(%s%s);", t, name, fn, e.s, second)
	g.scope = append(g.scope, object{name: name, t: t, at: at(off)})
	p.phases = append(p.phases, func(ts []*thread) {
		for _, h := range ts {
			v := e.f(h)
			copy(h.mem[tmp:tmp+4], v[:])
		}
		for first := 0; first < len(ts); first += 32 {
			ls := ts[first:min(first+32, len(ts))]
			for l, h := range ls {
				for c := range t.n {
					x := func(i int) uint64 { return ls[i].mem[tmp+c] }
					h.mem[off+c] = simdResult(fn, t.k, x, len(ls), l, func() int { return int(index.f(h)[0]) })
				}
			}
		}
	})
}

func simdResult(fn string, k kind, x func(int) uint64, n, l int, index func() int) uint64 {
	fold := func(r uint64, from, to int, f func(a, b uint64) uint64) uint64 {
		for i := from; i < to; i++ {
			r = f(r, x(i))
		}
		return wrap(r, k)
	}
	add := func(a, b uint64) uint64 { return a + b }
	switch fn {
	case "simd_sum":
		return fold(0, 0, n, add)
	case "simd_prefix_inclusive_sum":
		return fold(0, 0, l+1, add)
	case "simd_prefix_exclusive_sum":
		return fold(0, 0, l, add)
	case "simd_and":
		return fold(x(0), 1, n, func(a, b uint64) uint64 { return a & b })
	case "simd_or":
		return fold(0, 0, n, func(a, b uint64) uint64 { return a | b })
	case "simd_xor":
		return fold(0, 0, n, func(a, b uint64) uint64 { return a ^ b })
	case "simd_min":
		return fold(x(0), 1, n, func(a, b uint64) uint64 { return pick(k, a, b, true) })
	case "simd_max":
		return fold(x(0), 1, n, func(a, b uint64) uint64 { return pick(k, a, b, false) })
	case "simd_broadcast_first":
		return x(0)
	}
	i := index()
	switch fn {
	case "simd_shuffle_xor":
		i ^= l
	case "simd_shuffle_up":
		i = l - i
	case "simd_shuffle_down":
		i += l
	case "simd_shuffle_rotate_up":
		i = (l - i) & 31
	case "simd_shuffle_rotate_down":
		i = (l + i) & 31
	}
	if i < 0 || i >= 32 {
		i = l
	}
	return x(i)
}

// exchange adds a round through threadgroup memory.
func (g *generator) exchange(p *program) {
	t := g.typ()
	e := g.expr(t, 3)
	sh, name, off := g.name("sh"), g.name("v"), g.cell(1)
	d := 1 + g.r.IntN(p.size)
	g.line("threadgroup %s %s[%d];", t, sh, p.size)
	g.line("%s[lid] = %s;", sh, e.s)
	g.line("threadgroup_barrier(mem_flags::mem_threadgroup);")
	g.line("%s %s = %s[(lid + %d) %% width];", t, name, sh, d)
	g.line("threadgroup_barrier(mem_flags::mem_threadgroup);")
	g.scope = append(g.scope, object{name: name, t: t, at: at(off)})
	p.phases = append(p.phases, func(ts []*thread) {
		var all []value
		for _, h := range ts {
			all = append(all, e.f(h))
		}
		for i, h := range ts {
			v := all[(i+d)%len(all)]
			copy(h.mem[off:off+4], v[:])
		}
	})
}

// finish stores what is in scope, behind a return that some threads take.
func (g *generator) finish(p *program) {
	g.depth = 0
	c := g.expr(typ{kBool, 1}, 3)
	words := 0
	put := func(s string, prec int, f func(*thread) uint32) {
		if words == outWords {
			return
		}
		w := words
		words++
		g.line("out[%d] = %s;", w, s)
		p.phases = append(p.phases, func(ts []*thread) {
			for _, h := range ts {
				if !h.done {
					h.out[w] = f(h)
				}
			}
		})
	}
	for n := range outWords {
		if n == outWords/2 {
			g.line("if (%s) return;", c.s)
			p.phases = append(p.phases, func(ts []*thread) {
				for _, h := range ts {
					h.done = c.f(h)[0] != 0
				}
			})
		}
		var e expr
		if len(g.views) > 0 && g.one(3) {
			e = g.viewRead(typ{choose(g, kUint, kUchar, kShort, kLong), 1}, 1)
		} else if len(g.scope) > 0 {
			ps := g.places(g.scope[g.r.IntN(len(g.scope))], 1)
			e = read(ps[g.r.IntN(len(ps))])
		} else {
			e = g.leaf(typ{kInt, 1})
		}
		s := e.s
		if e.t.n > 1 {
			s += "." + letters[0][n%e.t.n:n%e.t.n+1]
		}
		c := n % e.t.n
		switch e.t.k {
		case kFloat:
			put("as_type<uint>(number("+s+"))", 18, func(h *thread) uint32 { return uint32(number(e.f(h)[c])) })
		case kHalf:
			put("as_type<ushort>(number("+s+"))", 18, func(h *thread) uint32 { return uint32(halfBits(f32(number(e.f(h)[c])))) })
		case kLong, kUlong:
			put("uint("+s+")", 18, func(h *thread) uint32 { return uint32(e.f(h)[c]) })
			put("uint(ulong("+s+") >> 32)", 18, func(h *thread) uint32 { return uint32(e.f(h)[c] >> 32) })
		default:
			put("uint("+s+")", 18, func(h *thread) uint32 { return uint32(e.f(h)[c]) })
		}
	}
}

// want evaluates the program.
func (p *program) want() []uint32 {
	out := make([]uint32, p.grid*outWords)
	for first := 0; first < p.grid; first += p.size {
		gr := &group{id: uint64(first / p.size)}
		var ts []*thread
		for i := first; i < min(first+p.size, p.grid); i++ {
			ts = append(ts, &thread{mem: make([]uint64, p.cells), gid: uint64(i), lid: uint64(i - first), lane: uint64((i - first) % 32),
				out: out[i*outWords : (i+1)*outWords], g: gr})
		}
		for _, ph := range p.phases {
			ph(ts)
		}
	}
	return out
}

func bytesOf[T any](t *testing.T, xs []T, label string) *mem.Buffer {
	data, err := binary.Append(nil, binary.LittleEndian, xs)
	require.NoError(t, err)
	b := mem.New(len(data), label)
	copy(b.Data, data)
	return b
}

func (p *program) run(t *testing.T, prog *interp.Program, mode san.Mode, threads int) []uint32 {
	out := make([]uint32, p.grid*outWords)
	bufs := []*mem.Buffer{bytesOf(t, p.ints, "in"), bytesOf(t, p.floats, "fin"), bytesOf(t, out, "out"), bytesOf(t, []uint32{uint32(p.size), p.ints[1], 0, 0}, "args"),
		mem.New(p.grid*viewBytes, "scratch")}
	l := interp.Launch{Grid: [3]int{p.grid, 1, 1}, Ragged: true, Threadgroup: [3]int{p.size, 1, 1}, ThreadgroupBytes: make([]int, 5), Threads: threads}
	for i, b := range bufs {
		l.Windows = append(l.Windows, mem.Window{Buffer: b, Length: len(b.Data), ReadOnly: i != 2 && i != 4})
	}
	var c *san.Checker
	if mode != san.Off {
		c = san.New(mode, san.Options{})
		d := &san.Dispatch{Kernel: prog.Func(), Threadgroups: [3]int{(p.grid + p.size - 1) / p.size, 1, 1}, Threads: l.Threadgroup, ThreadgroupBytes: []int{}}
		for i, b := range bufs {
			b.San = san.NewBuffer(b.Label, len(b.Data))
			b.San.Define(0, len(b.Data))
			d.Bindings = append(d.Bindings, san.Binding{Param: i, Buffer: b.San, Length: len(b.Data)})
		}
		c.BeginInterval([]*san.Dispatch{d})
		l.San = c.Begin(d, threads)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := prog.Run(ctx, &l)
	require.NoError(t, err, "%s", p.text)
	if c != nil {
		l.San.End()
		c.Finish()
		for _, f := range c.Report().Findings {
			if f.Severity == san.Error && f.Kind != "uninitialized" {
				t.Fatalf("a finding in a clean program: %+v\n%s", f, p.text)
			}
		}
	}
	require.NoError(t, binary.Read(strings.NewReader(string(bufs[2].Data)), binary.LittleEndian, out))
	return out
}

// unoptimised gives the kernel's code as lowered.
func (p *program) unoptimised(t *testing.T) *ir.Func {
	toks, m, _ := pp.Process(fstest.MapFS{"k.metal": {Data: []byte(p.text)}}, "k.metal", pp.Options{})
	tree, _ := parse.File(toks, parse.Options{})
	prog, _ := sema.Check(tree, sema.Options{MaxInstances: 10000})
	consts := map[int]sema.Value{}
	for _, v := range prog.Constants {
		switch c := p.consts[v.Name].(type) {
		case bool:
			consts[v.FuncConst] = sema.Value{I: int64(truth(c))}
		case int:
			consts[v.FuncConst] = sema.Value{I: int64(c)}
		case float32:
			consts[v.FuncConst] = sema.Value{F: float64(c)}
		}
	}
	f, ds := lower.Kernel(prog.Kernels[0], m, lower.Options{Constants: consts, NoPasses: true})
	require.Empty(t, ds)
	require.NoError(t, pass.Finish(f))
	require.NoError(t, ir.Verify(f))
	return f
}

// TestRandomPrograms compiles programs of all kinds of values and control flow and holds each
// thread's results against an evaluation in Go that shares no code with
// the compiler or the device: at every level of the CPU, with and without passes, for several
// numbers of threads, with and without the sanitizer.
func TestRandomPrograms(t *testing.T) {
	best := lane.Level()
	defer lane.Use(best)
	start := time.Now()
	for seed := *firstProgram; seed < *firstProgram+uint64(*programs); seed++ {
		if time.Since(start) > *programTime {
			t.Logf("%d programs", seed-*firstProgram)
			break
		}
		p := generate(seed)
		want := p.want()
		lib, err := msl.Compile(fstest.MapFS{"k.metal": {Data: []byte(p.text)}}, "k.metal", msl.Options{})
		require.NoError(t, err, "seed %d\n%s", seed, p.text)
		consts := map[string]any{}
		for _, c := range lib.Constants() {
			consts[c.Name] = p.consts[c.Name]
		}
		f, err := lib.Specialize("k", consts)
		require.NoError(t, err, "seed %d\n%s", seed, p.text)
		again, err := ir.Parse(f.String())
		require.NoError(t, err, "seed %d", seed)
		require.Equal(t, f.String(), again.String(), "seed %d", seed)
		decode := func(f *ir.Func) *interp.Program { // for the level in use
			prog, err := interp.Decode(f)
			require.NoError(t, err, "seed %d\n%s", seed, p.text)
			return prog
		}
		check := func(how string, got []uint32) {
			for i, x := range want {
				if got[i] != x {
					t.Fatalf("seed %d, %s, thread %d, out[%d]: got %#x, want %#x\n%s", seed, how, i/outWords, i%outWords, got[i], x, p.text)
				}
			}
		}
		for i, level := range lane.Levels() {
			lane.Use(level)
			check(level, p.run(t, decode(f), san.Off, 1+(i+int(seed))%3))
		}
		lane.Use(best)
		check("strict", p.run(t, decode(f), san.Strict, 1+int(seed%3)))
		if seed%2 == 0 {
			check("without passes", p.run(t, decode(p.unoptimised(t)), san.Off, 2))
		}
	}
}
