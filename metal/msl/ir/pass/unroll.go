package pass

import "minfer/metal/msl/ir"

// Limits of Unroll.
const (
	maxTrips     = 1024  // iterations that are worth counting
	maxUnrolled  = 16384 // instructions after unrolling where the source asks or an array needs it
	smallLoop    = 96    // instructions after unrolling otherwise
	maxFuncInstr = 1 << 17
)

// Unroll replaces loops with a trip count that can be computed now by their
// iterations: where the source asks for it in full (or by at least the trip count), where
// the induction variable indexes a private object that is still in memory, and where the
// result is small. Other loops stay as they are. It reports whether something
// changed; [Simplify] then cleans up.
func Unroll(f *ir.Func) bool {
	u := &unroller{f: f, def: defs(f), to: leaves(f), budget: maxFuncInstr - size(f.Body)}
	u.region(f.Body)
	return u.changed
}

type unroller struct {
	f       *ir.Func
	def     []*ir.Instr
	to      map[*ir.Instr][]*ir.Instr
	budget  int
	changed bool
}

func (u *unroller) region(r *ir.Region) {
	for k, i := range r.Instrs {
		for _, b := range i.Body {
			u.region(b)
		}
		if i.Op == ir.Loop {
			if n, ok := u.wanted(i); ok {
				r.Instrs[k] = u.unroll(i, n)
				u.changed = true
			}
		}
	}
}

// wanted gives the number of iterations of a loop that is to be unrolled.
func (u *unroller) wanted(l *ir.Instr) (int, bool) {
	hint := ir.UnrollHint(l.Imm)
	forced := u.indexes(l)
	if hint == ir.UnrollNever && !forced {
		return 0, false
	}
	n := u.trips(l)
	if n < 0 {
		return 0, false
	}
	cost := (n + 1) * size(l.Body[0])
	limit := smallLoop
	if hint == ir.UnrollFull || hint > ir.UnrollFull && n <= int(min(hint-ir.UnrollFull, maxTrips)) || forced {
		limit = maxUnrolled
	}
	if cost > min(limit, u.budget) {
		return 0, false
	}
	u.budget -= cost
	return n, true
}

// trips runs the part of the loop that depends on constants alone, -1 if that does
// not tell when it ends. The result counts the Continues.
func (u *unroller) trips(l *ir.Instr) int {
	b := l.Body[0]
	t := terminator(b)
	if t.Op != ir.Continue || t.Target != l {
		return -1
	}
	known := map[ir.Value]uint64{}
	value := func(v ir.Value) (uint64, bool) {
		if x, ok := known[v]; ok {
			return x, true
		}
		if d := u.def[v]; d != nil && d.Op == ir.Const {
			return d.Imm, true
		}
		return 0, false
	}
	for k, a := range b.Args {
		if x, ok := value(l.Args[k]); ok {
			known[a] = x
		}
	}
	for _, o := range u.to[l] {
		if o.Op == ir.Continue && o != t {
			return -1
		}
	}
	for n := 0; n <= maxTrips; n++ {
		tested := false
		for _, i := range b.Instrs {
			switch {
			case i.Op == ir.If:
				c, ok := value(i.Args[0])
				if !ok {
					continue
				}
				r := i.Body[1-c&1]
				if e := terminator(r); e.Op == ir.Break && e.Target == l {
					return n
				} else if e.Op == ir.Yield {
					for k, v := range i.Res {
						delete(known, v)
						if x, ok := value(e.Args[k]); ok {
							known[v] = x
						}
					}
				}
				if o := terminator(i.Body[c&1]); o.Op == ir.Break && o.Target == l {
					tested = true
				}
			case i.Op.Pure() && len(i.Res) == 1:
				u.eval(i, known, value)
			}
		}
		if !tested {
			return -1
		}
		next := map[ir.Value]uint64{}
		for k, a := range b.Args {
			if x, ok := value(t.Args[k]); ok {
				next[a] = x
			}
		}
		known = next
	}
	return -1
}

func (u *unroller) eval(i *ir.Instr, known map[ir.Value]uint64, value func(ir.Value) (uint64, bool)) {
	if len(i.Args) == 0 || len(i.Args) > 3 {
		return
	}
	var a [3]uint64
	for k, v := range i.Args {
		x, ok := value(v)
		if !ok {
			return
		}
		a[k] = x
	}
	t := u.f.Types[i.Res[0]]
	if t.IsSg() || t == ir.Ptr {
		return
	}
	if x, ok := Eval(i.Op, t, u.f.Types[i.Args[0]], i.Imm, a[:len(i.Args)]); ok {
		known[i.Res[0]] = x
	}
}

// indexes tells whether an address of a private object inside the loop depends on
// the loop's carried values.
func (u *unroller) indexes(l *ir.Instr) bool {
	private := map[ir.Value]bool{}
	varies := map[ir.Value]bool{}
	for _, a := range l.Body[0].Args {
		varies[a] = true
	}
	isPrivate := func(p ir.Value) bool {
		for {
			if private[p] {
				return true
			}
			d := u.def[p]
			if d == nil {
				return false
			}
			if d.Op == ir.PtrAlloca {
				return true
			}
			if d.Op != ir.PtrAdd {
				return false
			}
			p = d.Args[0]
		}
	}
	found := false
	walk(l.Body[0], func(i *ir.Instr) {
		if i.Op == ir.PtrAdd && varies[i.Args[1]] && isPrivate(i.Args[0]) {
			found = true
		}
		if !i.Op.Pure() {
			return
		}
		for _, a := range i.Args {
			if varies[a] {
				for _, r := range i.Res {
					varies[r] = true
				}
			}
		}
	})
	return found
}

// unroll gives a Block that runs the body n+1 times, the last time up to the way
// out.
func (u *unroller) unroll(l *ir.Instr, n int) *ir.Instr {
	blk := &ir.Instr{Op: ir.Block, Res: l.Res, Body: []*ir.Region{{}}, Pos: l.Pos}
	out := &blk.Body[0].Instrs
	carried := l.Args
	c := &cloner{f: u.f, values: make([]ir.Value, len(u.f.Types)), targets: map[*ir.Instr]*ir.Instr{l: blk}}
	for it := 0; it <= n; it++ {
		for k, a := range l.Body[0].Args {
			c.values[a] = carried[k]
		}
		body := l.Body[0].Instrs
		for _, i := range body[:len(body)-1] {
			*out = append(*out, c.instr(i))
		}
		carried = c.list(body[len(body)-1].Args)
	}
	// Not reached: the last copy has left.
	*out = append(*out, &ir.Instr{Op: ir.Return, Pos: l.Pos})
	for len(u.def) < len(u.f.Types) {
		u.def = append(u.def, nil)
	}
	walk(blk.Body[0], func(i *ir.Instr) {
		for _, v := range i.Res {
			u.def[v] = i
		}
		if i.Target != nil && i.Target != blk {
			u.to[i.Target] = append(u.to[i.Target], i)
		}
	})
	return blk
}

// cloner copies instructions with new values. One copy after another may use the
// same cloner, as each defines its values before it uses them.
type cloner struct {
	f       *ir.Func
	values  []ir.Value // old value -> new, 0 for those from outside
	targets map[*ir.Instr]*ir.Instr
	// Room for copies: many small allocations would keep the collector busy.
	instrs []ir.Instr
	room   []ir.Value
}

// take makes room for n values.
func (c *cloner) take(n int) []ir.Value {
	if len(c.room) < n {
		c.room = make([]ir.Value, max(1024, n))
	}
	vs := c.room[:n:n]
	c.room = c.room[n:]
	return vs
}

func (c *cloner) list(vs []ir.Value) []ir.Value {
	if len(vs) == 0 {
		return nil
	}
	out := c.take(len(vs))
	for k, v := range vs {
		if w := c.values[v]; w != 0 {
			v = w
		}
		out[k] = v
	}
	return out
}

func (c *cloner) define(vs []ir.Value) []ir.Value {
	if len(vs) == 0 {
		return nil
	}
	out := c.take(len(vs))
	for k, v := range vs {
		out[k] = c.f.NewValue(c.f.Types[v])
		c.values[v] = out[k]
	}
	return out
}

func (c *cloner) instr(i *ir.Instr) *ir.Instr {
	if len(c.instrs) == 0 {
		c.instrs = make([]ir.Instr, 256)
	}
	j := &c.instrs[0]
	c.instrs = c.instrs[1:]
	*j = ir.Instr{Op: i.Op, Imm: i.Imm, Mem: i.Mem, Pos: i.Pos, Target: i.Target}
	if t, ok := c.targets[i.Target]; ok && i.Target != nil {
		j.Target = t
	}
	j.Args = c.list(i.Args)
	if len(i.Body) > 0 {
		c.targets[i] = j
	}
	for _, r := range i.Body {
		s := &ir.Region{Args: c.define(r.Args), Instrs: make([]*ir.Instr, 0, len(r.Instrs))}
		for _, k := range r.Instrs {
			s.Instrs = append(s.Instrs, c.instr(k))
		}
		j.Body = append(j.Body, s)
	}
	j.Res = c.define(i.Res)
	return j
}
