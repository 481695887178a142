package san

import (
	"fmt"
	"testing"

	"minfer/metal/msl/ir"
)

// Positions of the test kernel: ir.Pos n is line n.
const lines = 64

// kernel is a function with device parameters in0 (only read), out1 and out2
// (stored to), one threadgroup argument, one threadgroup variable and one private
// array.
func kernel(atomics bool) *ir.Func {
	f := &ir.Func{Name: "k", Types: []ir.Type{ir.Void}}
	for i := range lines {
		f.Positions = append(f.Positions, ir.Position{File: "k.metal", Line: i, Col: 5})
	}
	value := func(t ir.Type) ir.Value {
		f.Types = append(f.Types, t)
		return ir.Value(len(f.Types) - 1)
	}
	for i, name := range []string{"in0", "out1", "out2"} {
		f.Params = append(f.Params, ir.Param{Name: name, Index: i, Space: ir.Device, Elem: "float", ElemSize: 4, Scalar: ir.F32, ReadOnly: i == 0, Pos: 1})
	}
	f.Params = append(f.Params, ir.Param{Name: "shared", Kind: ir.ThreadgroupParam, Space: ir.Threadgroup, Elem: "float", ElemSize: 4})
	f.Statics = []ir.Static{{Name: "tile", Size: 2048, Align: 16}}
	f.Allocas = []ir.Alloca{{Name: "acc", Size: 64, Align: 4}}
	body := &ir.Region{}
	for i := range 3 {
		p := value(ir.Ptr)
		body.Instrs = append(body.Instrs, &ir.Instr{Op: ir.PtrParam, Res: []ir.Value{p}, Imm: uint64(i)})
		v := value(ir.F32)
		body.Instrs = append(body.Instrs, &ir.Instr{Op: ir.Load, Args: []ir.Value{p}, Res: []ir.Value{v}, Mem: &ir.Mem{Elem: ir.F32, Count: 1}, Pos: 2})
		if i > 0 {
			body.Instrs = append(body.Instrs, &ir.Instr{Op: ir.Store, Args: []ir.Value{p, v}, Mem: &ir.Mem{Elem: ir.F32, Count: 1}, Pos: ir.Pos(2 + i)})
		}
		if i == 2 && atomics {
			body.Instrs = append(body.Instrs, &ir.Instr{Op: ir.AtomicRMW, Args: []ir.Value{p, v}, Res: []ir.Value{value(ir.I32)}, Mem: &ir.Mem{Elem: ir.I32, Count: 1}})
		}
	}
	body.Instrs = append(body.Instrs, &ir.Instr{Op: ir.Return})
	f.Body = body
	return f
}

// rig is one dispatch of the test kernel on three buffers of 4096 bytes.
type rig struct {
	t       *testing.T
	c       *Checker
	d       *Dispatch
	bufs    [3]*Buffer
	run     *Run
	w       *Worker
	a       Access
	vals    [Lanes]uint32
	offsets [Lanes]uint64
}

func newRig(t *testing.T, mode Mode, workers int) *rig {
	r := &rig{t: t, c: New(mode, Options{Source: func(file string, line int) string { return fmt.Sprintf("    text of line %d;", line) }})}
	for i := range r.bufs {
		r.bufs[i] = NewBuffer([]string{"x", "y", "z"}[i], 4096)
		r.bufs[i].Define(0, 4096)
	}
	r.d = dispatch(kernel(false), 0, r.bufs)
	r.begin(workers)
	return r
}

func dispatch(f *ir.Func, index int, bufs [3]*Buffer) *Dispatch {
	return &Dispatch{
		Index: index, Kernel: f, ThreadgroupBytes: []int{1024}, Threadgroups: [3]int{8, 1, 1}, Threads: [3]int{128, 1, 1},
		Bindings: []Binding{{Param: 0, Buffer: bufs[0], Length: 4096}, {Param: 1, Buffer: bufs[1], Length: 4096}, {Param: 2, Buffer: bufs[2], Length: 4096}},
	}
}

func (r *rig) begin(workers int) {
	r.c.BeginInterval([]*Dispatch{r.d})
	r.run = r.c.Begin(r.d, workers)
	r.w = r.run.Worker(0)
	r.w.BeginGroup(0, 128, 4)
}

// one is an access of one lane at line pos: a float at byte off.
func (r *rig) one(kind Kind, obj *Object, sg, lane, off int, pos ir.Pos, val uint32) {
	r.access(kind, obj, sg, 1<<lane, pos, 4, func(int) (int, uint32) { return off, val })
}

// access is one of all lanes in mask, each an element of size bytes.
func (r *rig) access(kind Kind, obj *Object, sg int, mask uint32, pos ir.Pos, size int, at func(lane int) (off int, val uint32)) {
	for l := range Lanes {
		off, v := at(l)
		r.offsets[l], r.vals[l] = uint64(off), v
	}
	r.a = Access{Kind: kind, Obj: obj, Pos: pos, Mask: mask, Off: &r.offsets, ElemSize: size, Count: 1}
	r.a.Val32[0] = &r.vals
	r.w.Access(sg, &r.a)
}

// found ends the dispatch and lists the findings: "severity kind line,line".
func (r *rig) found() []string {
	r.w.EndGroup()
	r.run.End()
	r.c.Finish()
	out := []string{}
	for _, f := range r.c.Report().Findings {
		s := f.Severity + " " + f.Kind
		for _, side := range f.Sides {
			s += fmt.Sprintf(" %d", side.Line)
		}
		out = append(out, s)
	}
	return out
}
