package msl_test

import "fmt"

const viewBytes = 64 // of each thread, in each address space

// A view is memory of a thread that is read and written as all kinds of integers: loads
// that are kept too long, or stores that go missing, show here.
type view struct {
	space, name string
	bytes       func(*thread) []byte
}

// access picks an element of type t of a view: its text and its byte offset.
func (g *generator) access(t typ, depth int) (v view, s string, off func(*thread) int) {
	v = g.views[g.r.IntN(len(g.views))]
	size := t.k.bits() / 8 * t.n
	i := g.index(viewBytes/size, depth)
	off = func(h *thread) int { return size * int(i.f(h)[0]) }
	switch {
	case t == typ{kUint, 1}:
		s = fmt.Sprintf("%s[%s]", v.name, i.s)
	case g.one(2):
		s = fmt.Sprintf("((%s %s *)%s)[%s]", v.space, t, v.name, i.s)
	default:
		s = fmt.Sprintf("*(%s %s *)((%s uchar *)%s + %d * (%s))", v.space, t, v.space, v.name, size, i.s)
	}
	return v, s, off
}

func viewable(t typ) bool { return t.n != 3 && t.k != kBool && !t.k.float() }

func (g *generator) viewRead(t typ, depth int) expr {
	v, s, off := g.access(t, depth)
	return expr{t, "(" + s + ")", 18, func(h *thread) (x value) {
		b := v.bytes(h)[off(h):]
		for i := range t.n {
			var w uint64
			for j := range t.k.bits() / 8 {
				w |= uint64(b[i*t.k.bits()/8+j]) << (8 * j)
			}
			x[i] = wrap(w, t.k)
		}
		return x
	}}
}

func (g *generator) viewWrite() stmt {
	t := typ{choose(g, kChar, kUchar, kShort, kUshort, kInt, kUint, kUint, kLong), choose(g, 1, 1, 1, 2, 4)}
	v, s, off := g.access(t, 2)
	e := g.any(t, 3)
	if g.one(3) { // what was read must not outlive the store
		e = g.viewRead(t, 1)
	}
	g.line("%s = %s;", s, e.s)
	return func(h *thread) flow {
		x := implicit(e.f(h), e.t, t)
		b := v.bytes(h)[off(h):]
		for i := range t.n {
			for j := range t.k.bits() / 8 {
				b[i*t.k.bits()/8+j] = byte(x[i] >> (8 * j))
			}
		}
		return next
	}
}

// memory declares the views.
func (g *generator) memory(p *program) {
	g.line("device uint *dm = scratch + gid * %d;", viewBytes/4)
	g.line("threadgroup uint shared[%d];", p.size*viewBytes/4)
	g.line("threadgroup uint *tm = shared + lid * %d;", viewBytes/4)
	g.line("uint pm[%d];", viewBytes/4)
	g.line("for (int i = 0; i < %d; i++) { dm[i] = i * 0x1234567; tm[i] = i * 0x7654321 + lid; pm[i] = i * 0x5a5a5a5; }", viewBytes/4)
	for n, s := range []string{"device", "threadgroup", "thread"} {
		g.views = append(g.views, view{s, []string{"dm", "tm", "pm"}[n], func(h *thread) []byte { return h.views[n][:] }})
	}
	p.phases = append(p.phases, func(ts []*thread) {
		for _, h := range ts {
			for i := range uint32(viewBytes / 4) {
				for n, w := range []uint32{i * 0x1234567, i*0x7654321 + uint32(h.lid), i * 0x5a5a5a5} {
					for j := range 4 {
						h.views[n][int(i)*4+j] = byte(w >> (8 * j))
					}
				}
			}
		}
	})
}
