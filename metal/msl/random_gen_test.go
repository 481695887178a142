package msl_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// A thread executes a generated program. Memory is an array of cells; each object
// has a fixed place in it, as there is no recursion.
type thread struct {
	mem            []uint64
	gid, lid, lane uint64
	this           int // of the method that runs
	done           bool
	result         value
	out            []uint32
	g              *group
	views          [3][viewBytes]byte
}

type group struct {
	id uint64
}

// An expr is text and meaning.
type expr struct {
	t    typ
	s    string
	prec int // of its operator; higher binds tighter
	f    func(*thread) value
}

// A place is an lvalue: scalar components of an object, some of them or all.
type place struct {
	t     typ
	s     string
	comps []int // nil for all
	at    func(*thread) int
}

type object struct {
	name   string
	t      typ // of the object, or of an array's elements
	length int // of an array, else 0
	rec    *record
	at     func(*thread) int
	fixed  bool // const
}

type record struct {
	name   string
	fields []typ
	method *method
}

type method struct {
	ret, arg typ
	at       int
	body     func(*thread) value
	mutates  bool
}

type helper struct {
	name     string
	ret      typ
	params   []param
	call     func(*thread, func()) value
	cost     int
	template string // "", or the text of the arguments that are not deduced
}

type param struct {
	t   typ
	ref byte // 0, '&' or '*'
	set func(*thread, value, int)
}

type generator struct {
	r       *rand.Rand
	b       strings.Builder
	scope   []object
	helpers []helper
	records []*record
	views   []view
	leaves  []expr // of the program: constants of all kinds
	cells   int
	names   int
	depth   int // of statements
	weight  int // how often the current place runs, estimated
	cost    int // of the current function
	loops   int // that break and continue may leave
	inFor   bool
	inFunc  *typ // its result, nil in the kernel
	budget  int
}

func (g *generator) one(n int) bool { return g.r.IntN(n) == 0 }

func choose[T any](g *generator, xs ...T) T { return xs[g.r.IntN(len(xs))] }

func (g *generator) name(p string) string {
	g.names++
	return fmt.Sprintf("%s%d", p, g.names)
}

// cell reserves n objects of up to four components.
func (g *generator) cell(n int) int {
	g.cells += 4 * n
	return g.cells - 4*n
}

func (g *generator) kind() kind {
	return choose(g, kBool, kChar, kUchar, kShort, kUshort, kInt, kInt, kInt, kUint, kUint, kLong, kUlong, kHalf, kHalf, kFloat, kFloat, kFloat)
}

func (g *generator) typ() typ {
	n := 1
	if g.one(3) {
		n = 2 + g.r.IntN(3)
	}
	return typ{g.kind(), n}
}

func (g *generator) line(format string, args ...any) {
	g.b.WriteString(strings.Repeat("\t", g.depth+1))
	fmt.Fprintf(&g.b, format, args...)
	g.b.WriteByte('\n')
}

// paren gives the text of e as an operand of something that binds as p. Calls get no needless
// parentheses: (int4(short4(x))) is the type of a function, as in C++.
func (g *generator) paren(e expr, p int) string {
	if e.prec < p || e.prec < 18 && g.one(8) {
		return "(" + e.s + ")"
	}
	return e.s
}

func (g *generator) literal(k kind) expr {
	v := g.r.Uint64() >> (g.r.IntN(60) + 4)
	if g.one(2) {
		v = uint64(g.r.IntN(20))
	}
	s, prec := "", 20
	switch k {
	case kBool:
		v &= 1
		s = choose(g, "false", "true")
		v = truth(s == "true")
	case kInt:
		v &= 1<<31 - 1
		s = strconv.FormatUint(v, 10)
		if g.one(3) {
			s, v, prec = "-"+s, -v, 15
		} else if g.one(4) {
			s = fmt.Sprintf("%#x", v)
		}
	case kUint:
		v &= 1<<32 - 1
		s = strconv.FormatUint(v, 10) + "u"
		if v >= 1<<31 && g.one(2) {
			s = fmt.Sprintf("%#x", v) // a hexadecimal literal takes the unsigned type
		}
	case kLong:
		v &= 1<<63 - 1
		s = strconv.FormatUint(v, 10) + "l"
		if v >= 1<<31 && g.one(2) {
			s = strconv.FormatUint(v, 10) // a decimal one takes the longer
		}
	case kUlong:
		s = strconv.FormatUint(v, 10) + "ul"
	case kHalf, kFloat:
		f := float32(g.r.IntN(4000)-2000) / 16
		if g.one(6) {
			f /= 1 << 14
		}
		if k == kHalf {
			f = roundHalf(f)
		}
		v = fromF(f)
		s = strconv.FormatFloat(float64(f), 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += choose(g, ".0", ".")
		}
		if f < 0 || s[0] == '-' {
			prec = 15
		}
		if k == kHalf {
			s += "h"
		} else {
			s += choose(g, "f", "", "F")
		}
	default:
		v = wrap(v, k)
		s = fmt.Sprintf("%s(%d)", kindNames[k], int64(v))
	}
	x := value{v}
	return expr{typ{k, 1}, s, prec, func(*thread) value { return x }}
}

func read(p place) expr {
	t := p.t
	if len(p.comps) > 0 {
		return expr{t, p.s, 18, func(h *thread) (v value) {
			a := p.at(h)
			for i, c := range p.comps {
				v[i] = h.mem[a+c]
			}
			return v
		}}
	}
	return expr{t, p.s, 18, func(h *thread) (v value) {
		a := p.at(h)
		copy(v[:t.n], h.mem[a:a+t.n])
		return v
	}}
}

func write(p place) func(*thread, value) {
	return func(h *thread, v value) {
		a := p.at(h)
		for i := range p.t.n {
			c := i
			if p.comps != nil {
				c = p.comps[i]
			}
			h.mem[a+c] = v[i]
		}
	}
}

var letters = [2]string{"xyzw", "rgba"}

// places lists the lvalues of an object; arrays are indexed at random.
func (g *generator) places(o object, depth int) []place {
	base, s, t := o.at, o.name, o.t
	if o.length > 0 {
		i := g.index(o.length, depth)
		step := 4
		if o.rec != nil {
			step *= len(o.rec.fields)
		}
		at := base
		base = func(h *thread) int { return at(h) + step*int(i.f(h)[0]) }
		s += "[" + i.s + "]"
	}
	if o.rec != nil {
		k := g.r.IntN(len(o.rec.fields))
		at := base
		base = func(h *thread) int { return at(h) + 4*k }
		t = o.rec.fields[k]
		s += fmt.Sprintf(".f%d", k)
	}
	ps := []place{{t: t, s: s, at: base}}
	if t.n == 1 {
		return ps
	}
	l := letters[g.r.IntN(2)]
	c := g.r.IntN(t.n)
	ps = append(ps, place{typ{t.k, 1}, s + "." + l[c:c+1], []int{c}, base})
	n := 2 + g.r.IntN(t.n-1)
	comps, text := g.r.Perm(t.n)[:n], ""
	for _, c := range comps {
		text += l[c : c+1]
	}
	ps = append(ps, place{typ{t.k, n}, s + "." + text, comps, base})
	if t.n != 3 && depth > 0 {
		i := g.index(t.n, depth-1)
		ps = append(ps, place{typ{t.k, 1}, s + "[" + i.s + "]", nil, func(h *thread) int { return base(h) + int(i.f(h)[0]) }})
	}
	return ps
}

// index is an expression in [0, n).
func (g *generator) index(n, depth int) expr {
	if depth <= 0 || g.one(2) {
		v := value{uint64(g.r.IntN(n))}
		return expr{typ{kInt, 1}, strconv.Itoa(int(v[0])), 20, func(*thread) value { return v }}
	}
	e := g.expr(typ{choose(g, kInt, kUint, kUchar, kShort, kLong, kUlong), 1}, depth-1)
	if n&(n-1) == 0 {
		return expr{e.t, g.paren(e, 8) + " & " + strconv.Itoa(n-1), 7, func(h *thread) value { return value{e.f(h)[0] & uint64(n-1)} }}
	}
	return expr{typ{kUint, 1}, "uint(" + e.s + ") % " + strconv.Itoa(n), 13, func(h *thread) value {
		return value{wrap(e.f(h)[0], kUint) % uint64(n)}
	}}
}

// place picks an lvalue that may be written, of a type if want is not nil.
func (g *generator) place(want *typ, depth int) (place, bool) {
	for range 20 {
		if len(g.scope) == 0 {
			break
		}
		o := g.scope[g.r.IntN(len(g.scope))]
		if o.fixed {
			continue
		}
		ps := g.places(o, depth)
		p := ps[g.r.IntN(len(ps))]
		if want == nil || p.t == *want {
			return p, true
		}
	}
	return place{}, false
}

// leaf is an expression without operators, of the type.
func (g *generator) leaf(t typ) expr {
	if len(g.views) > 0 && viewable(t) && g.one(5) {
		return g.viewRead(t, 0)
	}
	for range 12 {
		if len(g.scope) > 0 && !g.one(4) {
			ps := g.places(g.scope[g.r.IntN(len(g.scope))], 0)
			for _, p := range ps {
				if p.t == t {
					return read(p)
				}
			}
			continue
		}
		if l := g.leaves[g.r.IntN(len(g.leaves))]; l.t == t {
			return l
		}
	}
	if t.n == 1 {
		return g.literal(t.k)
	}
	return g.splat(t, g.leaf(typ{t.k, 1}))
}

func (g *generator) splat(t typ, e expr) expr {
	return expr{t, t.String() + "(" + e.s + ")", 18, func(h *thread) (v value) {
		x := convert(e.f(h)[0], e.t.k, t.k)
		for i := range t.n {
			v[i] = x
		}
		return v
	}}
}

// cast converts an expression explicitly.
func (g *generator) cast(e expr, t typ) expr {
	s, prec := "", 18
	switch g.r.IntN(3) {
	case 0:
		s = fmt.Sprintf("%s(%s)", t, e.s)
	case 1:
		s = fmt.Sprintf("static_cast<%s>(%s)", t, e.s)
	default:
		s, prec = fmt.Sprintf("(%s)%s", t, g.paren(e, 16)), 15
	}
	return expr{t, s, prec, func(h *thread) (v value) {
		x := e.f(h)
		for i := range t.n {
			v[i] = convert(x[i], e.t.k, t.k)
		}
		return v
	}}
}

// any gives an expression of some type that converts implicitly to t.
func (g *generator) any(t typ, depth int) expr {
	if t.n > 1 && !g.one(4) {
		return g.expr(t, depth)
	}
	return g.expr(typ{g.kind(), 1}, depth)
}

// implicit converts a value as an initialisation does.
func implicit(v value, from, to typ) value {
	var r value
	for i := range to.n {
		c := i
		if from.n == 1 {
			c = 0
		}
		r[i] = convert(v[c], from.k, to.k)
	}
	return r
}

var precedence = map[string]int{"*": 13, "/": 13, "%": 13, "+": 12, "-": 12, "<<": 11, ">>": 11, "<": 10, "<=": 10, ">": 10, ">=": 10,
	"==": 9, "!=": 9, "&": 8, "^": 7, "|": 6, "&&": 5, "||": 4}

func (g *generator) expr(t typ, depth int) expr {
	if depth <= 0 || g.one(7) {
		return g.leaf(t)
	}
	g.cost++
	switch c := g.r.IntN(16); {
	case c == 0:
		return g.cast(g.expr(typ{g.kind(), t.n}, depth-1), t)
	case c == 1 && t.n > 1:
		return g.construct(t, depth-1)
	case c == 2:
		return g.ternary(t, depth-1)
	case c == 3 && t.k != kBool:
		return g.function(t, depth-1)
	case c == 4:
		if e, ok := g.call(t, depth-1); ok {
			return e
		}
	case c == 5:
		return g.reinterpret(t, depth-1)
	case c == 6 && t.n > 1:
		m, a, b := g.expr(typ{kBool, t.n}, depth-1), g.expr(t, depth-1), g.expr(t, depth-1)
		return expr{t, fmt.Sprintf("select(%s, %s, %s)", a.s, b.s, m.s), 18, func(h *thread) (v value) {
			x, y, c := a.f(h), b.f(h), m.f(h)
			for i := range t.n {
				v[i] = x[i]
				if c[i] != 0 {
					v[i] = y[i]
				}
			}
			return v
		}}
	case c == 7 && t.n < 4: // a swizzle of a value, repeats allowed
		e := g.expr(typ{t.k, 2 + g.r.IntN(3)}, depth-1)
		var comps []int
		s := g.paren(e, 18) + "."
		for range t.n {
			c := g.r.IntN(e.t.n)
			comps = append(comps, c)
			s += letters[0][c : c+1]
		}
		return expr{t, s, 18, func(h *thread) (v value) {
			x := e.f(h)
			for i, c := range comps {
				v[i] = x[c]
			}
			return v
		}}
	}
	return g.operator(t, depth-1)
}

func (g *generator) construct(t typ, depth int) expr {
	var parts []expr
	var s []string
	for left := t.n; left > 0; {
		e := g.expr(typ{g.kind(), 1}, depth)
		if n := g.r.IntN(left) + 1; n > 1 && n < t.n {
			e = g.expr(typ{t.k, n}, depth)
		}
		left -= e.t.n
		parts = append(parts, e)
		s = append(s, e.s)
	}
	return expr{t, t.String() + "(" + strings.Join(s, ", ") + ")", 18, func(h *thread) (v value) {
		n := 0
		for _, e := range parts {
			x := e.f(h)
			for i := range e.t.n {
				v[n] = convert(x[i], e.t.k, t.k)
				n++
			}
		}
		return v
	}}
}

func (g *generator) ternary(t typ, depth int) expr {
	c, a, b := g.expr(typ{g.kind(), 1}, depth), g.expr(t, depth), g.expr(t, depth)
	s := fmt.Sprintf("%s ? %s : %s", g.paren(c, 4), g.paren(a, 3), g.paren(b, 3))
	return expr{t, s, 2, func(h *thread) value {
		if convert(c.f(h)[0], c.t.k, kBool) != 0 {
			return a.f(h)
		}
		return b.f(h)
	}}
}

func (g *generator) function(t typ, depth int) expr {
	for {
		fn := functions[g.r.IntN(len(functions))]
		if t.k.float() && !fn.floats || !t.k.float() && !fn.ints {
			continue
		}
		var args []expr
		var s []string
		for range fn.args {
			e := g.expr(t, depth)
			args = append(args, e)
			s = append(s, e.s)
		}
		if fn.name == "clamp" { // with the bounds in order
			s[1], s[2] = fmt.Sprintf("min(%s, %s)", s[1], s[2]), fmt.Sprintf("max(%s, %s)", s[1], s[2])
		}
		text, prec := fn.name+"("+strings.Join(s, ", ")+")", 18
		unsigned := t.k.float() && (fn.name == "min" || fn.name == "max") // which zero of two is open: 0 + -0 is 0
		if unsigned {
			text, prec = fmt.Sprintf("%s + %s(0)", text, t), 12
		}
		return expr{t, text, prec, func(h *thread) (v value) {
			var x [3]value
			for i, a := range args {
				x[i] = a.f(h)
			}
			for i := range t.n {
				a, b, c := x[0][i], x[1][i], x[2][i]
				if fn.name == "clamp" {
					b, c = pick(t.k, b, c, true), pick(t.k, b, c, false)
				}
				v[i] = fn.f(t.k, a, b, c)
				if unsigned {
					v[i] = calculate("+", t.k, v[i], 0)
				}
			}
			return v
		}}
	}
}

// reinterpret is as_type between types of one size.
func (g *generator) reinterpret(t typ, depth int) expr {
	if t.k == kBool || t.n == 3 {
		return g.operator(t, depth)
	}
	var from typ
	for range 30 {
		from = typ{g.kind(), choose(g, 1, 2, 4)}
		if from.k != kBool && from.k.bits()*from.n == t.k.bits()*t.n {
			break
		}
		from = t
	}
	e := g.expr(from, depth)
	s := fmt.Sprintf("as_type<%s>(%s)", t, e.s)
	if from.k.float() {
		s = fmt.Sprintf("as_type<%s>(number(%s))", t, e.s)
	}
	return expr{t, s, 18, func(h *thread) (v value) {
		x := e.f(h)
		var bytes []byte
		for i := range from.n {
			w := x[i]
			if from.k.float() {
				w = number(w)
			}
			if from.k == kHalf {
				w = halfBits(f32(w))
			}
			for j := 0; j < from.k.bits(); j += 8 {
				bytes = append(bytes, byte(w>>j))
			}
		}
		for i := range t.n {
			var w uint64
			for j := 0; j < t.k.bits(); j += 8 {
				w |= uint64(bytes[(i*t.k.bits()+j)/8]) << j
			}
			switch {
			case t.k == kHalf:
				w = fromF(halfFromBits(w))
			case t.k != kFloat:
				w = wrap(w, t.k)
			}
			v[i] = w
		}
		return v
	}}
}

// number makes 0 of a NaN, whose bits are nobody's promise.
func number(x uint64) uint64 {
	if f := f32(x); f != f {
		return 0
	}
	return x
}
