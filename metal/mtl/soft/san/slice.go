package san

import (
	"cmp"
	"fmt"
	"slices"

	"minfer/metal/msl/ir"
)

// madeFrom lists the places, one a line, that the values stored at a position were
// computed from: a backward slice over operands, addresses, the results of
// branches and loops with their conditions. It is what to read when the value is
// wrong.
func (c *Checker) madeFrom(f *ir.Func, pos ir.Pos) []Location {
	s := slicer{defs: map[ir.Value]*ir.Instr{}, outs: map[*ir.Instr][][]ir.Value{}, seen: map[ir.Value]bool{}, at: map[ir.Pos]bool{}}
	s.index(f.Body, nil, ir.Value(0), pos)
	for len(s.work) > 0 {
		v := s.work[len(s.work)-1]
		s.work = s.work[:len(s.work)-1]
		if s.seen[v] {
			continue
		}
		s.seen[v] = true
		in := s.defs[v]
		if in == nil {
			continue
		}
		s.at[in.Pos] = true
		s.work = append(s.work, in.Args...)
		for _, group := range s.outs[in] {
			s.work = append(s.work, group...)
		}
	}
	lines := map[string]Location{}
	for p := range s.at {
		l := c.locate(f, p)
		if l.Line == 0 {
			continue
		}
		key := fmt.Sprintf("%s:%d", l.File, l.Line)
		if old, ok := lines[key]; !ok || l.Column < old.Column {
			l.Inlined = nil
			lines[key] = l
		}
	}
	var out []Location
	for _, l := range lines {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b Location) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return out
}

type slicer struct {
	defs map[ir.Value]*ir.Instr
	// outs are, by If, Loop and Block, the values that leave it or go round, and the
	// conditions under which they do.
	outs map[*ir.Instr][][]ir.Value
	seen map[ir.Value]bool
	work []ir.Value
	at   map[ir.Pos]bool
}

// index records who defines what, and starts with the values stored at pos. owner
// is the enclosing If, Loop or Block, cond the innermost condition.
func (s *slicer) index(r *ir.Region, owner *ir.Instr, cond ir.Value, pos ir.Pos) {
	for _, v := range r.Args {
		s.defs[v] = owner
	}
	for _, in := range r.Instrs {
		for _, v := range in.Res {
			s.defs[v] = in
		}
		switch in.Op {
		case ir.Store, ir.SgStore, ir.AtomicStore, ir.AtomicRMW, ir.AtomicCAS:
			if in.Pos == pos {
				s.at[pos] = true
				s.work = append(s.work, in.Args...)
			}
		case ir.Yield:
			if owner != nil {
				s.outs[owner] = append(s.outs[owner], in.Args)
			}
		case ir.Break, ir.Continue:
			s.outs[in.Target] = append(s.outs[in.Target], in.Args)
			if cond != 0 {
				s.outs[in.Target] = append(s.outs[in.Target], []ir.Value{cond})
			}
		}
		inner := cond
		if in.Op == ir.If {
			inner = in.Args[0]
		}
		for _, body := range in.Body {
			s.index(body, in, inner, pos)
		}
	}
}
