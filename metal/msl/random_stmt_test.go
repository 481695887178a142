package msl_test

import (
	"fmt"
	"strings"
)

// operator gives an expression with an operator at its top.
func (g *generator) operator(t typ, depth int) expr {
	switch {
	case t.k == kBool:
		return g.boolean(t, depth)
	case t.n == 1 && t.k < kInt:
		return g.cast(g.expr(typ{g.kind(), 1}, depth), t)
	}
	if g.one(6) {
		op := "-"
		if !t.k.float() && g.one(2) {
			op = "~"
		}
		k := t.k
		if t.n == 1 && k == kInt {
			k = choose(g, kChar, kUchar, kShort, kUshort, kInt, kBool)
		}
		e := g.expr(typ{k, t.n}, depth)
		s := g.paren(e, 16)
		return expr{t, op + s, 15, func(h *thread) (v value) {
			x := e.f(h)
			for i := range t.n {
				switch y := convert(x[i], k, t.k); {
				case t.k.float():
					v[i] = y ^ 1<<31
				case op == "-":
					v[i] = wrap(-y, t.k)
				default:
					v[i] = wrap(^y, t.k)
				}
			}
			return v
		}}
	}
	ops := []string{"+", "-", "*", "/"}
	if !t.k.float() {
		ops = append(ops, "+", "-", "*", "%", "&", "|", "^", "<<", ">>")
	}
	op := ops[g.r.IntN(len(ops))]
	ta, tb := g.operands(t, op)
	a, b := g.expr(ta, depth), g.expr(tb, depth)
	return g.apply(op, t, a, b)
}

// operands picks the types of two operands whose common type is t.
func (g *generator) operands(t typ, op string) (a, b typ) {
	if t.n > 1 {
		a, b = t, t
		switch g.r.IntN(4) {
		case 0:
			b = typ{g.scalarFor(t.k), 1}
		case 1:
			if op != "<<" && op != ">>" {
				a = typ{g.scalarFor(t.k), 1}
			}
		}
		return a, b
	}
	if op == "<<" || op == ">>" {
		ka := t.k
		if t.k == kInt {
			ka = choose(g, kBool, kChar, kUchar, kShort, kUshort, kInt, kInt, kInt)
		}
		return typ{ka, 1}, typ{choose(g, kUchar, kChar, kShort, kInt, kUint, kLong, kUlong), 1}
	}
	for {
		ka, kb := g.kind(), g.kind()
		if g.one(2) {
			kb = t.k
		}
		if usual(ka, kb) == t.k {
			return typ{ka, 1}, typ{kb, 1}
		}
	}
}

// scalarFor picks the type of a scalar beside a vector of k.
func (g *generator) scalarFor(k kind) kind {
	if k.float() {
		return choose(g, k, kFloat, kHalf, kInt)
	}
	return choose(g, k, kInt, kUint, kUchar)
}

// apply makes a op b of type t; a divisor is made odd.
func (g *generator) apply(op string, t typ, a, b expr) expr {
	p := precedence[op]
	sa, sb := g.paren(a, p), g.paren(b, p+1)
	odd := (op == "/" || op == "%") && !t.k.float()
	if odd {
		sb = "(" + g.paren(b, 6) + " | 1)"
	}
	return expr{t, sa + " " + op + " " + sb, p, func(h *thread) value {
		return operate(op, t, a.t, b.t, a.f(h), b.f(h))
	}}
}

// operate computes with operands that convert to t, the count of a shift in its own type.
func operate(op string, t, ta, tb typ, x, y value) (v value) {
	x = implicit(x, ta, t)
	if t.n > 1 || op != "<<" && op != ">>" {
		odd := (op == "/" || op == "%") && !t.k.float()
		if odd && tb.n == 1 {
			y[0] |= 1 // in the type of (b | 1), which is that of b but for its width
		}
		y = implicit(y, tb, t)
		if odd {
			for i := range t.n {
				y[i] = wrap(y[i]|1, t.k)
			}
		}
	}
	for i := range t.n {
		v[i] = calculate(op, t.k, x[i], y[i])
	}
	return v
}

func (g *generator) boolean(t typ, depth int) expr {
	switch g.r.IntN(6) {
	case 0:
		e := g.expr(t, depth)
		return expr{t, "!" + g.paren(e, 16), 15, func(h *thread) value {
			v := e.f(h)
			for i := range t.n {
				v[i] ^= 1
			}
			return v
		}}
	case 1, 2:
		op := choose(g, "&&", "||")
		a, b := g.expr(t, depth), g.expr(t, depth)
		if t.n == 1 {
			a, b = g.expr(typ{g.kind(), 1}, depth), g.expr(typ{g.kind(), 1}, depth)
		}
		p := precedence[op]
		s := g.paren(a, p) + " " + op + " " + g.paren(b, p+1)
		return expr{t, s, p, func(h *thread) (v value) {
			x := a.f(h)
			if t.n == 1 {
				if c := convert(x[0], a.t.k, kBool); (c != 0) == (op == "||") {
					return value{c}
				}
				return value{convert(b.f(h)[0], b.t.k, kBool)}
			}
			y := b.f(h)
			for i := range t.n {
				v[i] = x[i] & y[i]
				if op == "||" {
					v[i] = x[i] | y[i]
				}
			}
			return v
		}}
	case 3:
		if t.n == 1 {
			name := choose(g, "all", "any")
			e := g.expr(typ{kBool, 2 + g.r.IntN(3)}, depth)
			return expr{t, name + "(" + e.s + ")", 18, func(h *thread) value {
				n := uint64(0)
				x := e.f(h)
				for i := range e.t.n {
					n += x[i]
				}
				return value{truth(n > 0 && name == "any" || n == uint64(e.t.n))}
			}}
		}
	}
	op := comparisons[g.r.IntN(len(comparisons))]
	k := g.kind()
	if k == kBool {
		k = kInt
	}
	a, b := g.expr(typ{k, t.n}, depth), g.expr(typ{k, t.n}, depth)
	if t.n == 1 {
		b = g.expr(typ{g.kind(), 1}, depth)
		k = usual(k, b.t.k)
	}
	p := precedence[op]
	return expr{t, g.paren(a, p+1) + " " + op + " " + g.paren(b, p+1), p, func(h *thread) (v value) {
		x, y := a.f(h), b.f(h)
		for i := range t.n {
			v[i] = compare(op, k, convert(x[i], a.t.k, k), convert(y[i], b.t.k, k))
		}
		return v
	}}
}

// What a statement does to the flow of control.
type flow int

const (
	next flow = iota
	leaves
	again
	returns
)

type stmt func(*thread) flow

func sequence(ss []stmt) stmt {
	return func(h *thread) flow {
		for _, s := range ss {
			if f := s(h); f != next {
				return f
			}
		}
		return next
	}
}

// block generates statements in a scope of their own.
func (g *generator) block(n int) stmt {
	mark := len(g.scope)
	g.depth++
	var ss []stmt
	for range 1 + g.r.IntN(n) {
		s, last := g.stmt()
		ss = append(ss, s)
		if last {
			break
		}
	}
	g.depth--
	g.scope = g.scope[:mark]
	return sequence(ss)
}

// stmt generates one; last says that nothing may follow it.
func (g *generator) stmt() (s stmt, last bool) {
	g.budget--
	if g.budget > 0 && g.depth < 5 {
		switch g.r.IntN(12) {
		case 0, 1:
			return g.branch(), false
		case 2:
			return g.loop(), false
		case 3:
			return g.while(), false
		case 4:
			return g.switches(), false
		}
	}
	switch c := g.r.IntN(10); {
	case c < 3:
		return g.declare(), false
	case c == 3 && g.loops > 0 && g.one(2):
		c, name, f := g.expr(typ{kBool, 1}, 2), "break", leaves
		if g.inFor && g.one(2) {
			name, f = "continue", again
		}
		if g.one(4) {
			g.line("%s;", name)
			return func(*thread) flow { return f }, true
		}
		g.line("if (%s) %s;", c.s, name)
		return func(h *thread) flow {
			if c.f(h)[0] != 0 {
				return f
			}
			return next
		}, false
	case c == 4 && g.inFunc != nil && g.depth > 0:
		t := *g.inFunc
		e := g.any(t, 2)
		g.line("return %s;", e.s)
		return func(h *thread) flow {
			h.result = implicit(e.f(h), e.t, t)
			return returns
		}, true
	case c == 6 && len(g.views) > 0, c == 7 && len(g.views) > 0:
		return g.viewWrite(), false
	case c == 5:
		if s, ok := g.callStmt(); ok {
			return s, false
		}
	}
	return g.assign(), false
}

func (g *generator) assign() stmt {
	p, ok := g.place(nil, 2)
	if !ok {
		return g.declare()
	}
	w, r := write(p), read(p)
	if p.t.n == 1 && p.comps == nil && p.t.k != kBool && g.one(6) {
		op := choose(g, "++", "--")
		d := uint64(1)
		one := fromF(1)
		if op == "--" {
			d, one = ^uint64(0), fromF(-1)
		}
		if g.one(2) {
			g.line("%s%s;", op, p.s)
		} else {
			g.line("%s%s;", p.s, op)
		}
		return func(h *thread) flow {
			x := r.f(h)[0]
			if p.t.k.float() {
				w(h, value{calculate("+", p.t.k, x, one)})
			} else {
				w(h, value{wrap(x+d, p.t.k)})
			}
			return next
		}
	}
	if p.t.k == kBool || g.one(2) {
		e := g.any(p.t, 4)
		g.line("%s = %s;", p.s, e.s)
		return func(h *thread) flow {
			w(h, implicit(e.f(h), e.t, p.t))
			return next
		}
	}
	ops := []string{"+", "-", "*", "/"}
	if !p.t.k.float() {
		ops = append(ops, "%", "&", "|", "^", "<<", ">>")
	}
	op := ops[g.r.IntN(len(ops))]
	e := g.expr(typ{p.t.k, p.t.n}, 3)
	if p.t.n == 1 {
		k := g.kind()
		for k.float() && op != "+" && op != "-" && op != "*" && op != "/" {
			k = g.kind()
		}
		if k.float() && !p.t.k.float() && op == "/" {
			k = kInt
		}
		e = g.expr(typ{k, 1}, 3)
	} else if g.one(3) {
		e = g.expr(typ{g.scalarFor(p.t.k), 1}, 3)
	}
	common := p.t
	if p.t.n == 1 {
		common.k = usual(p.t.k, e.t.k)
		if op == "<<" || op == ">>" {
			common.k = promote(p.t.k)
		}
	}
	s := e.s
	if (op == "/" || op == "%") && !common.k.float() {
		s = g.paren(e, 6) + " | 1"
	}
	g.line("%s %s= %s;", p.s, op, s)
	return func(h *thread) flow {
		v := operate(op, common, p.t, e.t, r.f(h), e.f(h))
		for i := range p.t.n {
			v[i] = convert(v[i], common.k, p.t.k)
		}
		w(h, v)
		return next
	}
}

func at(off int) func(*thread) int { return func(*thread) int { return off } }

func (g *generator) declare() stmt {
	name := g.name("v")
	t := g.typ()
	switch g.r.IntN(9) {
	case 0: // an array
		n := choose(g, 2, 3, 4, 8)
		o := object{name: name, t: t, length: n, at: at(g.cell(n))}
		off := g.cells - 4*n
		var inits []expr
		var s []string
		for range n - g.r.IntN(2) {
			e := g.expr(t, 2)
			inits = append(inits, e)
			s = append(s, e.s)
		}
		g.line("%s %s[%d] = {%s};", t, name, n, strings.Join(s, ", "))
		g.scope = append(g.scope, o)
		return func(h *thread) flow {
			var vs []value
			for _, e := range inits {
				vs = append(vs, e.f(h))
			}
			clear(h.mem[off : off+4*n])
			for i, v := range vs {
				copy(h.mem[off+4*i:], v[:])
			}
			return next
		}
	case 1, 2: // a struct
		if len(g.records) == 0 {
			break
		}
		rec := g.records[g.r.IntN(len(g.records))]
		off := g.cell(len(rec.fields))
		var inits []expr
		var s []string
		for _, t := range rec.fields {
			e := g.expr(t, 2)
			inits = append(inits, e)
			s = append(s, e.s)
		}
		g.line("%s %s = {%s};", rec.name, name, strings.Join(s, ", "))
		g.scope = append(g.scope, object{name: name, rec: rec, at: at(off)})
		return func(h *thread) flow {
			var vs []value
			for _, e := range inits {
				vs = append(vs, e.f(h))
			}
			for i, v := range vs {
				copy(h.mem[off+4*i:off+4*i+4], v[:])
			}
			return next
		}
	case 3, 4: // a reference or a pointer to something whole
		p, ok := g.place(nil, 2)
		if !ok || p.comps != nil || strings.HasSuffix(p.s, "]") && p.t.n == 1 && g.component(p) {
			break
		}
		off := g.cell(1)
		ptr := g.one(2)
		o := object{name: name, t: p.t, at: func(h *thread) int { return int(h.mem[off]) }}
		if ptr {
			g.line("thread %s *%s = &%s;", p.t, name, p.s)
			o.name = "(*" + name + ")"
		} else {
			g.line("thread %s &%s = %s;", p.t, name, p.s)
		}
		g.scope = append(g.scope, o)
		return func(h *thread) flow {
			h.mem[off] = uint64(p.at(h))
			return next
		}
	}
	off := g.cell(1)
	e := g.any(t, 4)
	o := object{name: name, t: t, at: at(off)}
	switch g.r.IntN(6) {
	case 0:
		o.fixed = true
		g.line("const %s %s = %s;", t, name, e.s)
	case 1:
		if e.t == t {
			g.line("auto %s = %s;", name, e.s)
			break
		}
		fallthrough
	default:
		g.line("%s %s = %s;", t, name, e.s)
	}
	g.scope = append(g.scope, o)
	return func(h *thread) flow {
		v := implicit(e.f(h), e.t, t)
		copy(h.mem[off:off+4], v[:])
		return next
	}
}

// component tells whether a place with an index at its end may be one of a vector's
// components, which has no address.
func (g *generator) component(p place) bool {
	for _, o := range g.scope {
		if o.length == 0 && strings.HasPrefix(p.s, o.name) && p.s[len(o.name)] == '[' {
			return true
		}
	}
	return strings.Contains(p.s, ".f") || strings.Count(p.s, "[") > 1
}

func (g *generator) branch() stmt {
	c := g.expr(typ{g.kind(), 1}, 3)
	g.line("if (%s) {", c.s)
	a := g.block(3)
	var b stmt
	if g.one(2) {
		g.line("} else {")
		b = g.block(3)
	}
	g.line("}")
	return func(h *thread) flow {
		if convert(c.f(h)[0], c.t.k, kBool) != 0 {
			return a(h)
		}
		if b != nil {
			return b(h)
		}
		return next
	}
}

// inLoop generates a loop's body, which runs about n times.
func (g *generator) inLoop(n int, f func()) {
	loops, inFor, weight := g.loops, g.inFor, g.weight
	g.loops, g.inFor, g.weight = loops+1, true, weight*n
	f()
	g.loops, g.inFor, g.weight = loops, inFor, weight
}

func (g *generator) loop() stmt {
	i, off := g.name("i"), g.cell(1)
	k := choose(g, kInt, kUint, kShort, kUchar)
	n := 1 + g.r.IntN(6)
	limit := expr{s: fmt.Sprint(n), f: func(*thread) value { return value{uint64(n)} }}
	switch {
	case g.one(2):
		limit = g.index(8, 3)
	case g.one(2):
		g.line("%s", choose(g, "#pragma unroll", "#pragma unroll(2)", "#pragma clang loop unroll(full)"))
	}
	down := g.one(4)
	if down {
		g.line("for (int %s = %s; %s > 0; --%s) {", i, limit.s, i, i)
		k = kInt
	} else {
		// The limit is one of the loop's own, as the body may change what it is made of.
		g.line("for (%s %s = 0, %sn = %s; %s < %sn; %s) {", kindNames[k], i, i, limit.s, i, i, choose(g, i+"++", "++"+i, i+" += 1"))
	}
	g.scope = append(g.scope, object{name: i, t: typ{k, 1}, at: at(off), fixed: true})
	var body stmt
	g.inLoop(4, func() { body = g.block(4) })
	g.scope = g.scope[:len(g.scope)-1]
	g.line("}")
	return func(h *thread) flow {
		n := limit.f(h)[0]
		for j := range n {
			h.mem[off] = j
			if down {
				h.mem[off] = n - j
			}
			switch body(h) {
			case leaves:
				return next
			case returns:
				return returns
			}
		}
		return next
	}
}

func (g *generator) while() stmt {
	i, off := g.name("w"), g.cell(1)
	n := 1 + g.r.IntN(5)
	do := g.one(2)
	g.line("int %s = %d;", i, n)
	c := g.expr(typ{kBool, 1}, 2)
	if do {
		g.line("do {")
	} else {
		g.line("while (%s-- > 0 && %s) {", i, g.paren(c, 5))
	}
	var body stmt
	g.inLoop(3, func() { body = g.block(3) })
	if do {
		g.line("} while (--%s > 0 && %s);", i, g.paren(c, 5))
	} else {
		g.line("}")
	}
	return func(h *thread) flow {
		h.mem[off] = uint64(n)
		for first := true; ; first = false {
			if !do || !first {
				h.mem[off]--
				left := h.mem[off]
				if do && int64(left) <= 0 || !do && int64(left) < 0 || c.f(h)[0] == 0 {
					return next
				}
			}
			switch body(h) {
			case leaves:
				return next
			case returns:
				return returns
			}
		}
	}
}

func (g *generator) switches() stmt {
	e := g.index(choose(g, 4, 8), 3)
	if g.one(3) {
		e = g.expr(typ{choose(g, kInt, kUint, kUchar, kShort, kChar), 1}, 3)
	}
	g.line("switch (%s) {", e.s)
	inFor := g.inFor
	g.loops++
	var arms []stmt
	labels := map[uint64]int{}
	other := -1
	n := 1 + g.r.IntN(4)
	for a := range n {
		for range 1 + g.r.IntN(2) {
			v := uint64(g.r.IntN(6))
			if _, twice := labels[v]; !twice {
				labels[v] = a
				g.line("case %d:", v)
			}
		}
		if other < 0 && g.one(n) {
			other = a
			g.line("default:")
		}
		g.line("{")
		body := g.block(3)
		g.line("}")
		if g.one(2) {
			g.line("break;")
			inner := body
			body = func(h *thread) flow {
				if f := inner(h); f != next {
					return f
				}
				return leaves
			}
		}
		arms = append(arms, body)
	}
	g.loops--
	g.inFor = inFor
	g.line("}")
	return func(h *thread) flow {
		a, ok := labels[e.f(h)[0]]
		if !ok {
			a = other
		}
		if a < 0 {
			return next
		}
		switch f := sequence(arms[a:])(h); f {
		case leaves:
			return next
		default:
			return f
		}
	}
}
