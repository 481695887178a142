package pass

import "minfer/metal/msl/ir"

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
