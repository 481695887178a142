// Package pass transforms and analyses IR functions: what comes out of lowering
// becomes what devices run.
//
// [Run] is the whole pipeline; the passes are there one by one for tests and
// tools. Passes change a function in place, keep it valid for ir.Verify and
// keep the bits of all results; only [Contract] changes bits, by fusing products and
// sums, and it runs once. [Analyze] computes how far values are uniform, as a side table.
//
// A function belongs to one goroutine while passes run on it.
package pass

import (
	"fmt"

	"minfer/metal/msl/ir"
)

// maxRounds bounds the promote-and-unroll rounds: each peels one level of loops or
// pointers to pointers.
const maxRounds = 12

// Run brings a lowered function into the form for devices: private objects in
// SSA values, loops unrolled, code simplified, contraction decided, invariants out of loops,
// values numbered densely, sites numbered. The error names what no device can
// run: a simdgroup matrix that has to live in memory.
func Run(f *ir.Func) error {
	for range maxRounds {
		promoted := Promote(f)
		settle(f)
		unrolled := Unroll(f)
		if unrolled {
			settle(f)
		}
		if !promoted && !unrolled {
			break
		}
	}
	removeDeclares(f.Body)
	Contract(f)
	Hoist(f)
	settle(f)
	return Finish(f)
}

func removeDeclares(r *ir.Region) {
	out := r.Instrs[:0]
	for _, i := range r.Instrs {
		if i.Op == ir.Declare {
			continue
		}
		for _, b := range i.Body {
			removeDeclares(b)
		}
		out = append(out, i)
	}
	r.Instrs = out
}

// settle simplifies until nothing changes, within reason.
func settle(f *ir.Func) {
	for range 4 {
		changed := Simplify(f)
		if !DCE(f) && !changed {
			return
		}
	}
}

// Finish removes unroll hints and what said how to contract, drops objects and positions that
// nothing refers to and numbers objects, values and sites in the order of the text.
func Finish(f *ir.Func) error {
	n := &numbering{f: f, values: make([]ir.Value, len(f.Types)), pos: make([]ir.Pos, len(f.Positions)),
		types: []ir.Type{ir.Void}, positions: []ir.Position{{}}, allocas: make([]int, len(f.Allocas)), tables: make([]int, len(f.Tables))}
	n.used(f.Body)
	if n.err != nil {
		return n.err
	}
	f.Allocas = compact(f.Allocas, n.allocas)
	f.Tables = compact(f.Tables, n.tables)
	for k := range f.Params {
		f.Params[k].Pos = n.position(f.Params[k].Pos)
	}
	for k := range f.Statics {
		f.Statics[k].Pos = n.position(f.Statics[k].Pos)
	}
	for k := range f.Allocas {
		f.Allocas[k].Pos = n.position(f.Allocas[k].Pos)
	}
	n.region(f.Body)
	f.Types, f.Positions = n.types, n.positions
	return nil
}

// compact keeps the objects with uses and leaves their new index in uses.
func compact[T any](list []T, uses []int) []T {
	var out []T
	for k, x := range list {
		if uses[k] > 0 {
			uses[k] = len(out)
			out = append(out, x)
		}
	}
	return out
}

type numbering struct {
	f               *ir.Func
	values          []ir.Value
	pos             []ir.Pos
	types           []ir.Type
	positions       []ir.Position
	allocas, tables []int
	sites           int32
	err             error
}

func (n *numbering) used(r *ir.Region) {
	for _, i := range r.Instrs {
		switch i.Op {
		case ir.PtrAlloca:
			n.allocas[i.Imm]++
		case ir.PtrTable:
			n.tables[i.Imm]++
		case ir.Load, ir.Store:
			if i.Mem.Elem.IsSg() && n.err == nil {
				p := n.f.Positions[i.Pos]
				n.err = fmt.Errorf("%s:%d:%d: a simdgroup matrix is indexed by a value that is known only at run time; the index must be constant, or that of a loop with a constant trip count", p.File, p.Line, p.Col)
			}
		}
		for _, b := range i.Body {
			n.used(b)
		}
	}
}

func (n *numbering) position(p ir.Pos) ir.Pos {
	if p == 0 || n.pos[p] != 0 {
		return n.pos[p]
	}
	q := n.f.Positions[p]
	q.InlinedAt = n.position(q.InlinedAt)
	n.positions = append(n.positions, q)
	n.pos[p] = ir.Pos(len(n.positions) - 1)
	return n.pos[p]
}

func (n *numbering) define(vs []ir.Value) {
	for k, v := range vs {
		n.types = append(n.types, n.f.Types[v])
		n.values[v] = ir.Value(len(n.types) - 1)
		vs[k] = n.values[v]
	}
}

func (n *numbering) region(r *ir.Region) {
	n.define(r.Args)
	for _, i := range r.Instrs {
		for k, a := range i.Args {
			i.Args[k] = n.values[a]
		}
		i.Pos = n.position(i.Pos)
		switch {
		case i.Op == ir.PtrAlloca:
			i.Imm = uint64(n.allocas[i.Imm])
		case i.Op == ir.PtrTable:
			i.Imm = uint64(n.tables[i.Imm])
		case i.Op == ir.Loop, i.Op >= ir.FAdd && i.Op <= ir.FDiv:
			i.Imm = 0
		case i.Op.Collective():
			n.sites++
			i.Site = n.sites
		}
		for _, b := range i.Body {
			n.region(b)
		}
		n.define(i.Res)
	}
}
