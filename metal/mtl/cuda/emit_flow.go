package cuda

import (
	"fmt"

	"minfer/metal/msl/ir"
)

func (e *emitter) region(r *ir.Region) {
	for _, i := range r.Instrs {
		if e.err != nil {
			return
		}
		e.before(i)
		if i.Op != ir.Const {
			e.position(i.Pos)
		}
		switch i.Op {
		case ir.If:
			e.ifInstr(i)
		case ir.Loop:
			e.loop(i)
		case ir.Block:
			e.block(i)
		case ir.Yield:
			e.assign(e.stack[len(e.stack)-1].Res, i.Args)
		case ir.Break, ir.Continue:
			e.leave(i)
		case ir.Return:
			e.line("return;")
		default:
			e.instr(i)
		}
	}
}

// nested prints a region one level deeper, with braces around it.
func (e *emitter) nested(r *ir.Region, open, close string) {
	e.line("%s", open)
	e.indent++
	e.region(r)
	e.indent--
	if close != "" {
		e.line("%s", close)
	}
}

// assign sets variables to values, all at once.
func (e *emitter) assign(to, from []ir.Value) {
	parallel := false
	for k := range to {
		for n := range k {
			parallel = parallel || from[k] == to[n]
		}
	}
	if !parallel {
		for k := range to {
			if to[k] != from[k] {
				e.line("v%d = %s;", to[k], e.v(from[k]))
			}
		}
		return
	}
	names := make([]string, len(to))
	e.line("{")
	e.indent++
	for k := range to {
		names[k] = e.fresh("t")
		e.line("%s const %s = %s;", ctype(e.typ(to[k])), names[k], e.v(from[k]))
	}
	for k := range to {
		e.line("v%d = %s;", to[k], names[k])
	}
	e.indent--
	e.line("}")
}

// end and next are the labels behind a construct and at the end of a loop's
// iteration.
func (e *emitter) end(i *ir.Instr) string  { return fmt.Sprintf("end%d", e.number(i)) }
func (e *emitter) next(i *ir.Instr) string { return fmt.Sprintf("next%d", e.number(i)) }

func (e *emitter) number(i *ir.Instr) int {
	if e.flow.id[i] == 0 {
		e.flow.id[i] = len(e.flow.id) + 1
	}
	return e.flow.id[i]
}

func (e *emitter) jump(label string) {
	e.labels[label] = true
	e.line("goto %s;", label)
}

func (e *emitter) label(label string) {
	if e.labels[label] {
		e.line("%s:;", label)
	}
}

// joinLabel is where lanes of a construct meet: of a loop that sees lanes, those
// of an iteration.
func (e *emitter) joinLabel(i *ir.Instr) string {
	if i.Op == ir.Loop && e.flow.sees[i] {
		return e.next(i)
	}
	return e.end(i)
}

// leave prints a Break or Continue.
func (e *emitter) leave(i *ir.Instr) {
	t := i.Target
	code := 2 * e.number(t)
	if i.Op == ir.Break {
		e.assign(t.Res, i.Args)
	} else {
		e.assign(t.Body[0].Args, i.Args)
		code++
	}
	// The innermost loop is what C's break and continue mean.
	var inner *ir.Instr
	for k := len(e.stack) - 1; k >= 0 && inner == nil; k-- {
		if e.stack[k].Op == ir.Loop {
			inner = e.stack[k]
		}
	}
	last := e.stack[len(e.stack)-1] == t // at the end of the target's own region
	switch {
	case e.flow.joined[i]:
		e.line("q = %d;", code)
		for k := len(e.stack) - 1; ; k-- {
			if d := e.stack[k]; e.flow.through[d] || d == t {
				e.jump(e.joinLabel(d))
				return
			}
		}
	case i.Op == ir.Continue && last || i.Op == ir.Break && last && t.Op == ir.Block:
	case i.Op == ir.Break && t == inner:
		e.line("break;")
	case i.Op == ir.Break:
		e.jump(e.end(t))
	case t == inner && !e.flow.voting[t]:
		e.line("continue;")
	default:
		e.jump(e.next(t))
	}
}

// afterwards prints the vote behind a construct that lanes left, and sends those
// that want to go further to the next join.
func (e *emitter) afterwards(i *ir.Instr, mask string) {
	e.mask = mask
	if !e.flow.through[i] {
		return
	}
	e.mask = e.fresh("m")
	cond := "true"
	if e.flow.coded {
		cond = "q == 0"
	}
	e.line("const u32 %s = __ballot_sync(%s, %s);", e.mask, mask, cond)
	if e.flow.coded && len(e.stack) > 0 {
		label := e.joinLabel(e.stack[len(e.stack)-1])
		e.labels[label] = true
		e.line("if (q != 0) goto %s;", label)
	}
}

func (e *emitter) push(i *ir.Instr) { e.stack = append(e.stack, i) }
func (e *emitter) pop()             { e.stack = e.stack[:len(e.stack)-1] }

func (e *emitter) ifInstr(i *ir.Instr) {
	for _, x := range i.Res {
		e.variable(x, "")
	}
	mask := e.mask
	cond := e.v(i.Args[0])
	then := mask
	vote := e.flow.sees[i] && e.varying(i)
	if vote {
		then = e.fresh("m")
		e.line("const u32 %s = __ballot_sync(%s, %s);", then, mask, cond)
	}
	e.push(i)
	e.mask = then
	e.nested(i.Body[0], fmt.Sprintf("if (%s) {", cond), "")
	if only := i.Body[1].Instrs; len(only) > 1 || only[0].Op != ir.Yield || len(i.Res) > 0 {
		e.mask = mask
		if vote {
			e.mask = fmt.Sprintf("(%s & ~%s)", mask, then)
		}
		e.nested(i.Body[1], "} else {", "")
	}
	e.line("}")
	e.pop()
	e.label(e.end(i))
	e.afterwards(i, mask)
}

func (e *emitter) loop(i *ir.Instr) {
	r := i.Body[0]
	for k, x := range r.Args {
		e.variable(x, e.v(i.Args[k]))
	}
	for _, x := range i.Res {
		e.variable(x, "")
	}
	mask := e.mask
	voting := e.flow.voting[i]
	if voting {
		e.mask = e.fresh("m")
		e.line("u32 %s = %s;", e.mask, mask)
	}
	own := e.mask
	e.push(i)
	counted := e.counted(i)
	if counted {
		e.line("#pragma unroll 1") // more took registers and gave no time on an H200
	}
	e.line("for (;;) {")
	e.indent++
	if e.o.Poll && !counted {
		e.line("if ((++polls & 1023) == 0 && stopped(g)) return;")
	}
	e.nested(r, "{", "}")
	e.label(e.next(i))
	if voting {
		if e.flow.coded {
			e.line("if (q == %d) q = 0;", 2*e.number(i)+1)
			e.line("%s = __ballot_sync(%s, q == 0);", own, own)
			e.line("if (q != 0) break;")
		} else {
			e.line("%s = __ballot_sync(%s, true);", own, own)
		}
	}
	e.indent--
	e.line("}")
	e.pop()
	e.label(e.end(i))
	if voting && e.flow.coded {
		e.line("if (q == %d) q = 0;", 2*e.number(i))
	}
	e.afterwards(i, mask)
}

func (e *emitter) block(i *ir.Instr) {
	for _, x := range i.Res {
		e.variable(x, "")
	}
	mask := e.mask
	e.push(i)
	e.nested(i.Body[0], "{", "}")
	e.pop()
	e.label(e.end(i))
	if e.flow.coded && e.flow.sees[i] {
		e.line("if (q == %d) q = 0;", 2*e.number(i))
	}
	e.afterwards(i, mask)
}
