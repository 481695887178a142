package interp

import "minfer/metal/msl/ir"

// facts are what the decoder knows of a function before it emits code.
type facts struct {
	f *ir.Func
	// varying tells, by Value, that active lanes may hold different values. What is
	// not varying is computed once for the simdgroup.
	varying []bool
	// root is, by Value, the object that a pointer is derived from: an object's
	// number, rootUnknown before the analysis has met it, rootDynamic where it
	// depends on control flow or comes from memory.
	root []int32
	// flow holds what is known of each Loop and Block.
	flow map[*ir.Instr]*flow

	stack   []enclosing
	changed bool
}

const (
	rootUnknown int32 = -2
	rootDynamic int32 = -1
)

// flow is how lanes leave a Loop or Block.
type flow struct {
	// div: some lanes may leave (by any exit, continue or return) while others stay.
	div bool
	// contDiv: some lanes may continue while others are still in the iteration.
	contDiv   bool
	continues int // Continue instructions
}

// enclosing is an instruction with a body around the place that is visited.
type enclosing struct {
	i       *ir.Instr
	varying bool // an If with a varying condition
}

// Object numbers: null, then params, statics, allocas, tables.

func (x *facts) paramObj(i uint64) int32  { return 1 + int32(i) }
func (x *facts) staticObj(i uint64) int32 { return 1 + int32(len(x.f.Params)) + int32(i) }
func (x *facts) allocaObj(i uint64) int32 {
	return 1 + int32(len(x.f.Params)+len(x.f.Statics)) + int32(i)
}
func (x *facts) tableObj(i uint64) int32 {
	return 1 + int32(len(x.f.Params)+len(x.f.Statics)+len(x.f.Allocas)) + int32(i)
}

// isAlloca tells that each lane has its own memory behind the number.
func (x *facts) isAlloca(obj int32) bool {
	return obj >= x.allocaObj(0) && obj < x.tableObj(0)
}

// analyze goes over the body until nothing changes: facts only grow from uniform
// to varying and from a known root to a dynamic one, so this ends.
func analyze(f *ir.Func) *facts {
	x := &facts{f: f, varying: make([]bool, len(f.Types)), root: make([]int32, len(f.Types)), flow: map[*ir.Instr]*flow{}}
	for i := range x.root {
		x.root[i] = rootUnknown
	}
	for {
		x.changed = false
		x.region(f.Body)
		if !x.changed {
			break
		}
	}
	for i, r := range x.root {
		if r == rootUnknown {
			x.root[i] = 0 // never assigned: null
		}
	}
	return x
}

func (x *facts) vary(v ir.Value, is bool) {
	if is && !x.varying[v] {
		x.varying[v] = true
		x.changed = true
	}
}

// merge makes a value's root that of one more source.
func (x *facts) merge(v ir.Value, root int32) {
	old := x.root[v]
	switch {
	case root == rootUnknown || old == root || old == rootDynamic:
		return
	case old == rootUnknown:
		x.root[v] = root
	default:
		x.root[v] = rootDynamic
	}
	x.changed = true
}

func (x *facts) set(b *bool) {
	if !*b {
		*b = true
		x.changed = true
	}
}

func (x *facts) flowOf(i *ir.Instr) *flow {
	fl := x.flow[i]
	if fl == nil {
		fl = &flow{}
		x.flow[i] = fl
	}
	return fl
}

func (x *facts) any(vs []ir.Value) bool {
	for _, v := range vs {
		if x.varying[v] {
			return true
		}
	}
	return false
}

func (x *facts) region(r *ir.Region) {
	for _, i := range r.Instrs {
		x.instr(i)
	}
}

// leave notes an exit to target (nil: return) at the current place. Everything
// that it leaves is divergent from the innermost varying If or divergent body
// outwards, for there lanes stay behind.
func (x *facts) leave(target *ir.Instr, cont bool) {
	apart := false
	for k := len(x.stack) - 1; k >= 0; k-- {
		e := x.stack[k]
		if e.i.Op == ir.If {
			apart = apart || e.varying
			continue
		}
		fl := x.flowOf(e.i)
		if apart {
			x.set(&fl.div)
			if e.i == target && cont {
				x.set(&fl.contDiv)
			}
		}
		if e.i == target {
			return
		}
		apart = apart || fl.div
	}
}

func (x *facts) instr(i *ir.Instr) {
	switch i.Op {
	case ir.If:
		cond := x.varying[i.Args[0]]
		x.stack = append(x.stack, enclosing{i, cond})
		for _, r := range i.Body {
			x.region(r)
		}
		x.stack = x.stack[:len(x.stack)-1]
		for _, r := range i.Body {
			if t := terminator(r); t != nil && t.Op == ir.Yield {
				for k, v := range i.Res {
					x.vary(v, cond || x.varying[t.Args[k]])
					x.merge(v, x.root[t.Args[k]])
				}
			}
		}
	case ir.Loop:
		fl := x.flowOf(i)
		fl.continues = 0
		for k, v := range i.Body[0].Args {
			x.vary(v, x.varying[i.Args[k]])
			x.merge(v, x.root[i.Args[k]])
		}
		x.stack = append(x.stack, enclosing{i: i})
		x.region(i.Body[0])
		x.stack = x.stack[:len(x.stack)-1]
		if fl.contDiv && fl.continues > 1 {
			for _, v := range i.Body[0].Args {
				x.vary(v, true)
			}
		}
		for _, v := range i.Res {
			x.vary(v, fl.div)
		}
	case ir.Block:
		fl := x.flowOf(i)
		x.stack = append(x.stack, enclosing{i: i})
		x.region(i.Body[0])
		x.stack = x.stack[:len(x.stack)-1]
		for _, v := range i.Res {
			x.vary(v, fl.div)
		}
	case ir.Break:
		x.leave(i.Target, false)
		for k, v := range i.Target.Res {
			x.vary(v, x.varying[i.Args[k]])
			x.merge(v, x.root[i.Args[k]])
		}
	case ir.Continue:
		x.leave(i.Target, true)
		x.flowOf(i.Target).continues++
		for k, v := range i.Target.Body[0].Args {
			x.vary(v, x.varying[i.Args[k]])
			x.merge(v, x.root[i.Args[k]])
		}
	case ir.Return:
		x.leave(nil, false)
	default:
		x.plain(i)
	}
}

// plain handles instructions without a body that stay in the region.
func (x *facts) plain(i *ir.Instr) {
	varying := x.any(i.Args)
	switch i.Op {
	case ir.Grid:
		switch ir.GridKind(i.Imm >> 2) {
		case ir.ThreadPositionInGrid, ir.ThreadPositionInThreadgroup, ir.ThreadIndexInThreadgroup,
			ir.ThreadIndexInSimdgroup, ir.ThreadIndexInQuadgroup, ir.QuadgroupIndexInThreadgroup:
			varying = true
		}
	case ir.Load:
		// Each lane has its own private memory.
		r := x.root[i.Args[0]]
		varying = varying || i.Mem.Space == ir.Thread || x.isAlloca(r) || r == rootDynamic
	case ir.AtomicLoad, ir.AtomicRMW, ir.AtomicCAS:
		varying = true
	case ir.SimdReduce, ir.SimdVote:
		varying = i.Imm&ir.QuadScope != 0
	case ir.SimdActive:
		varying = i.Imm&ir.QuadScope != 0
	case ir.SimdScan, ir.SimdFirst:
		varying = true
	case ir.SimdShuffle:
		switch ir.ShuffleOp(i.Imm & 0xff) {
		case ir.ShuffleBroadcast, ir.ShuffleBroadcastFirst:
			varying = i.Imm&ir.QuadScope != 0
		default:
			varying = true
		}
	case ir.SgElem:
		varying = true
	case ir.SgFill, ir.SgDiag, ir.SgLoad, ir.SgMMA, ir.SgWith:
		varying = false
	}
	for _, v := range i.Res {
		x.vary(v, varying)
	}
	if len(i.Res) == 0 || x.f.Types[i.Res[0]] != ir.Ptr {
		return
	}
	root := rootDynamic
	switch i.Op {
	case ir.PtrParam:
		root = x.paramObj(i.Imm)
	case ir.PtrStatic:
		root = x.staticObj(i.Imm)
	case ir.PtrAlloca:
		root = x.allocaObj(i.Imm)
	case ir.PtrTable:
		root = x.tableObj(i.Imm)
	case ir.PtrAdd:
		root = x.root[i.Args[0]]
	case ir.Const, ir.Undef:
		root = 0
	case ir.Select:
		x.merge(i.Res[0], x.root[i.Args[1]])
		root = x.root[i.Args[2]]
	}
	for _, v := range i.Res {
		x.merge(v, root)
	}
}

func terminator(r *ir.Region) *ir.Instr {
	if n := len(r.Instrs); n > 0 && r.Instrs[n-1].Op.Terminator() {
		return r.Instrs[n-1]
	}
	return nil
}
