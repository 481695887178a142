package san

import "minfer/metal/msl/ir"

// uses says how a kernel reaches its parameters.
type uses struct {
	reads, writes uint64              // by index in Func.Params
	atomics       bool                // on device memory
	stores        map[int][]ir.Pos    // places of stores, by parameter, in source order of the IR
	sets          map[ir.Value]uint64 // parameters that a pointer may come from
}

// analyse finds, for every pointer of a function, the parameters that it may be
// derived from. A pointer loaded from memory may be any.
func analyse(f *ir.Func) *uses {
	u := &uses{stores: map[int][]ir.Pos{}, sets: map[ir.Value]uint64{}}
	var all uint64
	for i, p := range f.Params {
		if p.Kind == ir.BufferParam && i < 64 {
			all |= 1 << i
		}
	}
	for u.flow(f, f.Body, nil, all) {
	}
	u.collect(f.Body)
	return u
}

// flow propagates once through a region and says whether anything changed.
func (u *uses) flow(f *ir.Func, r *ir.Region, results []ir.Value, all uint64) bool {
	changed := false
	add := func(v ir.Value, set uint64) {
		if old := u.sets[v]; old|set != old {
			u.sets[v] = old | set
			changed = true
		}
	}
	pass := func(to, from []ir.Value) {
		for i := range min(len(to), len(from)) {
			add(to[i], u.sets[from[i]])
		}
	}
	for _, in := range r.Instrs {
		switch in.Op {
		case ir.PtrParam:
			if in.Imm < 64 {
				add(in.Res[0], 1<<in.Imm)
			}
		case ir.PtrAdd:
			add(in.Res[0], u.sets[in.Args[0]])
		case ir.Select:
			add(in.Res[0], u.sets[in.Args[1]]|u.sets[in.Args[2]])
		case ir.Load:
			for _, v := range in.Res {
				if f.Types[v] == ir.Ptr {
					add(v, all)
				}
			}
		case ir.Undef:
		case ir.If, ir.Block:
			for _, body := range in.Body {
				changed = u.flow(f, body, in.Res, all) || changed
			}
		case ir.Loop:
			pass(in.Body[0].Args, in.Args)
			changed = u.flow(f, in.Body[0], in.Res, all) || changed
		case ir.Yield:
			pass(results, in.Args)
		case ir.Break:
			pass(in.Target.Res, in.Args)
		case ir.Continue:
			pass(in.Target.Body[0].Args, in.Args)
		}
	}
	return changed
}

func (u *uses) collect(r *ir.Region) {
	for _, in := range r.Instrs {
		var ptr ir.Value
		read, write := false, false
		switch in.Op {
		case ir.Load, ir.SgLoad, ir.AtomicLoad:
			ptr, read = in.Args[0], true
		case ir.Store, ir.AtomicStore:
			ptr, write = in.Args[0], true
		case ir.SgStore:
			ptr, write = in.Args[1], true
		case ir.AtomicRMW, ir.AtomicCAS:
			ptr, read, write = in.Args[0], true, true
		}
		if ptr != 0 {
			set := u.sets[ptr]
			if read {
				u.reads |= set
			}
			if write {
				u.writes |= set
				for i := range 64 {
					if set>>i&1 != 0 {
						u.stores[i] = append(u.stores[i], in.Pos)
					}
				}
			}
			switch in.Op {
			case ir.AtomicLoad, ir.AtomicStore, ir.AtomicRMW, ir.AtomicCAS:
				u.atomics = u.atomics || set != 0
			}
		}
		for _, body := range in.Body {
			u.collect(body)
		}
	}
}
