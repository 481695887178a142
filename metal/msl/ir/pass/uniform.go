package pass

import "minfer/metal/msl/ir"

// Level says how far a value is the same. Only active lanes count: a value of
// level Simdgroup or below is the same in all lanes that are active where it is
// defined.
type Level uint8

// The levels, each the least upper bound of those before.
const (
	Uniform     Level = iota // a constant
	Dispatch                 // same for all threads of a dispatch
	Threadgroup              // same for all threads of a threadgroup
	Simdgroup                // same for the active lanes of a simdgroup
	Varying
)

// String gives the level's name.
func (l Level) String() string {
	return [...]string{"uniform", "dispatch", "threadgroup", "simdgroup", "varying"}[l]
}

// Uniformity is the side table that [Analyze] makes. It holds for the function as
// it was then.
type Uniformity struct {
	levels  []Level
	control map[*ir.Instr]Level
}

// Of gives a value's level.
func (u *Uniformity) Of(v ir.Value) Level { return u.levels[v] }

// Control gives the level of the decision that an If, a Loop or a Block makes: of the
// condition of an If; of the conditions under which lanes break out of or continue a
// Loop or break out of a Block. A construct of level Simdgroup or below is taken or left by
// all active lanes together.
func (u *Uniformity) Control(i *ir.Instr) Level { return u.control[i] }

// Analyze computes how far each value is uniform. Data: an operation's result is
// as uniform as its operands; loads of constant memory as their address, of device
// and threadgroup memory at most Simdgroup (others may write), of private memory
// Varying; reductions, broadcasts and votes are Simdgroup. Control: values merged
// behind a conditional are no more uniform than its condition, values that leave
// a loop no more than its exits.
func Analyze(f *ir.Func) *Uniformity {
	a := &analysis{u: &Uniformity{levels: make([]Level, len(f.Types)), control: map[*ir.Instr]Level{}}, to: leaves(f)}
	for a.changed = true; a.changed; {
		a.changed = false
		a.region(f.Body)
	}
	return a.u
}

type analysis struct {
	u       *Uniformity
	to      map[*ir.Instr][]*ir.Instr
	stack   []*ir.Instr
	changed bool
}

func (a *analysis) raise(v ir.Value, l Level) {
	if l > a.u.levels[v] {
		a.u.levels[v] = l
		a.changed = true
	}
}

func (a *analysis) raiseControl(i *ir.Instr, l Level) {
	if l > a.u.control[i] {
		a.u.control[i] = l
		a.changed = true
	}
}

func (a *analysis) args(i *ir.Instr) Level {
	l := Uniform
	for _, v := range i.Args {
		l = max(l, a.u.levels[v])
	}
	return l
}

func (a *analysis) region(r *ir.Region) {
	for _, i := range r.Instrs {
		switch i.Op {
		case ir.If:
			a.raiseControl(i, a.u.levels[i.Args[0]])
			a.enter(i)
			a.merge(i)
		case ir.Loop:
			args := i.Body[0].Args
			for k, v := range args {
				a.raise(v, a.u.levels[i.Args[k]])
			}
			a.enter(i)
			for _, c := range a.to[i] {
				if c.Op != ir.Continue {
					continue
				}
				for k, v := range args {
					a.raise(v, max(a.u.levels[c.Args[k]], min(a.u.control[i], Simdgroup)))
				}
			}
			if a.divergent(i, ir.Continue) {
				for _, v := range args {
					a.raise(v, Varying)
				}
			}
			a.left(i)
		case ir.Block:
			a.enter(i)
			a.left(i)
		case ir.Break, ir.Continue:
			a.leave(i)
		case ir.Yield, ir.Return:
		default:
			if l := a.result(i); l > Uniform {
				for _, v := range i.Res {
					a.raise(v, l)
				}
			}
		}
	}
}

func (a *analysis) enter(i *ir.Instr) {
	a.stack = append(a.stack, i)
	for _, r := range i.Body {
		a.region(r)
	}
	a.stack = a.stack[:len(a.stack)-1]
}

// merge raises the results of an If.
func (a *analysis) merge(i *ir.Instr) {
	for _, r := range i.Body {
		y := terminator(r)
		if y.Op != ir.Yield {
			continue
		}
		for k, v := range i.Res {
			l := a.u.levels[y.Args[k]]
			if t := terminator(i.Body[0]); t.Op == ir.Yield {
				if e := terminator(i.Body[1]); e.Op == ir.Yield && t.Args[k] != e.Args[k] {
					l = max(l, a.u.control[i])
				}
			}
			a.raise(v, l)
		}
	}
}

// leave notes the control under which a lane leaves its target: the conditions in
// between, and the exits of loops in between, which lanes reach at different times.
func (a *analysis) leave(i *ir.Instr) {
	l := Uniform
	for k := len(a.stack) - 1; k >= 0 && a.stack[k] != i.Target; k-- {
		l = max(l, a.u.control[a.stack[k]])
	}
	a.raiseControl(i, l)
	a.raiseControl(i.Target, l)
}

// divergent tells whether lanes reach different leaves of the kind.
func (a *analysis) divergent(i *ir.Instr, op ir.Op) bool {
	n, l := 0, Uniform
	for _, b := range a.to[i] {
		if b.Op == op {
			n++
			l = max(l, a.u.control[b])
		}
	}
	return n > 1 && l == Varying
}

// left raises the results of a Loop or Block.
func (a *analysis) left(i *ir.Instr) {
	if len(i.Res) == 0 {
		return
	}
	var first *ir.Instr
	n := 0
	for _, b := range a.to[i] {
		if b.Op == ir.Break {
			n++
			first = b
		}
	}
	for _, b := range a.to[i] {
		if b.Op != ir.Break {
			continue
		}
		for k, v := range i.Res {
			l := a.u.levels[b.Args[k]]
			// One way out of a block is no merge; of a loop it is one over time.
			if n > 1 || i.Op == ir.Loop {
				if b.Args[k] != first.Args[k] || i.Op == ir.Loop {
					l = max(l, a.u.control[i])
				}
			}
			a.raise(v, l)
		}
	}
}

func (a *analysis) result(i *ir.Instr) Level {
	l := a.args(i)
	switch i.Op {
	case ir.Grid:
		return gridLevel(ir.GridKind(i.Imm >> 2))
	case ir.PtrParam:
		return Dispatch // what is bound, and so what a load of constant memory gives
	case ir.Load, ir.SgLoad:
		switch {
		case i.Op == ir.SgLoad:
			return Simdgroup
		case i.Mem.Space == ir.Constant:
			return l
		case i.Mem.Space == ir.Thread:
			return Varying
		}
		return max(l, Simdgroup)
	case ir.AtomicLoad, ir.AtomicRMW, ir.AtomicCAS:
		return Varying
	case ir.SimdReduce, ir.SimdVote, ir.SimdActive:
		if i.Imm&ir.QuadScope != 0 {
			return Varying
		}
		return Simdgroup
	case ir.SimdShuffle:
		if s := ir.ShuffleOp(i.Imm & 0xff); i.Imm&ir.QuadScope == 0 && (s == ir.ShuffleBroadcast || s == ir.ShuffleBroadcastFirst) {
			return Simdgroup
		}
		return Varying
	case ir.SimdScan, ir.SimdFirst, ir.SgElem:
		return Varying
	case ir.SgFill, ir.SgDiag, ir.SgMMA, ir.SgWith:
		return Simdgroup // owned by the simdgroup as a whole
	}
	return l
}

func gridLevel(k ir.GridKind) Level {
	switch k {
	case ir.ThreadsPerGrid, ir.DispatchThreadsPerThreadgroup, ir.ThreadgroupsPerGrid, ir.DispatchSimdgroupsPerThreadgroup,
		ir.ThreadsPerSimdgroup, ir.GridOrigin, ir.GridSize:
		return Dispatch
	case ir.ThreadgroupPositionInGrid, ir.ThreadsPerThreadgroup, ir.SimdgroupsPerThreadgroup, ir.QuadgroupsPerThreadgroup:
		return Threadgroup
	case ir.SimdgroupIndexInThreadgroup:
		return Simdgroup
	}
	return Varying
}
