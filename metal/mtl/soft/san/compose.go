package san

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"minfer/metal/msl/ir"
)

// report turns the occurrences of a dispatch into findings, in a defined order.
func (r *Run) report(found findings) {
	events := make([]*event, 0, len(found))
	for _, e := range found {
		events = append(events, e)
	}
	slices.SortFunc(events, func(a, b *event) int {
		return cmp.Or(
			cmp.Compare(a.tg, b.tg), cmp.Compare(a.seq, b.seq), cmp.Compare(a.code, b.code),
			cmp.Compare(a.pos, b.pos), cmp.Compare(a.other, b.other), cmp.Compare(a.lo, b.lo),
			cmp.Compare(a.kind, b.kind), cmp.Compare(a.kind2, b.kind2), cmp.Compare(a.obj, b.obj),
			cmp.Compare(a.obj2, b.obj2), cmp.Compare(a.dispatch, b.dispatch), cmp.Compare(a.hi, b.hi),
		)
	})
	for _, e := range events {
		r.c.report.Add(r.finding(e))
	}
}

// finding fills in a finding from an occurrence.
func (r *Run) finding(e *event) *Finding {
	f := &Finding{
		Kind: e.code.String(), Severity: Error, Kernel: r.d.Kernel.Name, Label: r.d.Label,
		Dispatches: []int{r.d.Index}, Count: e.count,
	}
	if e.note {
		f.Severity = Note
	}
	var obj *Object
	if e.obj >= 0 {
		obj = r.objects[e.obj]
		r.c.describe(f, obj, e)
	}
	side := r.side(r.d, e.kind.String(), e.pos, int(e.tg), e.who)
	f.Sides = []Side{side}
	switch e.code {
	case kindThreadgroupRace, kindDeviceRace, kindDispatchRace:
		r.raceFinding(f, e, obj)
	case kindBarrier:
		f.Sides[0].What = "threadgroup_barrier"
		what := "are masked off by a branch or loop"
		if e.ended {
			what = "have returned"
		} else if e.other != 0 {
			what = "are elsewhere"
		}
		f.Message = fmt.Sprintf("not every thread of the threadgroup reaches this barrier: %d threads of simdgroup %d %s",
			bits.OnesCount32(e.mask), e.who>>5, what)
		if e.other != 0 {
			s := r.side(r.d, "the missing threads are here", e.other, int(e.tg), e.who)
			if e.ended {
				s.What = "the missing threads returned here"
			}
			f.Sides = append(f.Sides, s)
		}
	case kindOutOfBounds, kindThreadgroupBounds, kindPrivateBounds:
		f.Access = accessName(e.kind)
		r.boundsFinding(f, e, obj)
	case kindUninitialized:
		f.Sides[0].What = "use"
		f.Access = "read"
		f.Message = fmt.Sprintf("a value that nobody wrote reaches %s", e.use)
		if obj != nil {
			f.Message += fmt.Sprintf("; it was read from %s", nameOf(obj))
			f.Sides = append(f.Sides, r.side(r.d, "read", e.other, int(e.tg), e.who))
		} else if e.other != 0 {
			f.Sides = append(f.Sides, r.side(r.d, "declared or made", e.other, int(e.tg), e.who))
		}
	case kindNonuniform:
		f.Sides[0].What = "simdgroup function"
		if e.operand {
			f.Message = "an operand that must be the same in all lanes of the simdgroup differs between them"
		} else {
			f.Message = fmt.Sprintf("a simdgroup function is reached by %d of %d live lanes (missing lanes %#08x)",
				bits.OnesCount32(e.active), bits.OnesCount32(e.live), e.live&^e.active)
		}
	case kindMisaligned:
		f.Access = accessName(e.kind)
		f.Message = fmt.Sprintf("%s of %s at byte offset %d, which is not a multiple of %d", e.kind, nameOf(obj), e.first, e.align)
	}
	return f
}

func accessName(k Kind) string {
	if k.writes() {
		return "write"
	}
	return "read"
}

func nameOf(o *Object) string {
	if o == nil {
		return "an unknown object"
	}
	what := map[ir.Space]string{ir.Device: "argument", ir.Constant: "argument", ir.Threadgroup: "threadgroup memory", ir.Thread: "private array"}[o.Space]
	return fmt.Sprintf("%s %s", what, o.Name)
}

var spaceNames = map[ir.Space]string{ir.Device: "device", ir.Constant: "constant", ir.Threadgroup: "threadgroup", ir.Thread: "thread"}

// describe fills in what is known of the object.
func (c *Checker) describe(f *Finding, o *Object, e *event) {
	f.Space, f.Argument, f.Tensor = spaceNames[o.Space], o.Name, o.Tensor
	f.Extent, f.ElementSize = o.Size, o.ElemSize
	if o.Param < 0 && e.unit > 0 {
		f.ElementSize = e.unit
	}
	if e.hi <= e.lo {
		return
	}
	f.Offset = e.lo
	base := int64(0)
	if o.Buffer != nil {
		base = int64(o.Base)
		f.Buffer, f.Allocation = o.Buffer.Name, o.Buffer.Size
	}
	f.BufferOffset = base + e.lo
	f.Bytes = &[2]int64{base + e.lo, base + e.hi}
}

func (r *Run) side(d *Dispatch, what string, pos ir.Pos, group int, who uint16) Side {
	g := d.Threadgroups
	x, y := max(1, g[0]), max(1, g[1])
	return Side{
		What: what, Location: r.c.locate(d.Kernel, pos), Kernel: d.Kernel.Name, Dispatch: d.Index,
		Threadgroup: &[3]int{group % x, group / x % y, group / x / y},
		Simdgroup:   int(who >> 5 & 31), Lane: int(who & laneMask),
	}
}

// locate resolves a position.
func (c *Checker) locate(f *ir.Func, pos ir.Pos) Location {
	if pos <= 0 || int(pos) >= len(f.Positions) {
		return Location{}
	}
	p := f.Positions[pos]
	l := Location{File: p.File, Line: p.Line, Column: p.Col, Text: c.opt.Source(p.File, p.Line)}
	for at, depth := p.InlinedAt, 0; at > 0 && int(at) < len(f.Positions) && depth < 64; depth++ {
		q := f.Positions[at]
		l.Inlined = append(l.Inlined, Location{File: q.File, Line: q.Line, Column: q.Col, Text: c.opt.Source(q.File, q.Line)})
		at = q.InlinedAt
	}
	return l
}

func (r *Run) raceFinding(f *Finding, e *event, obj *Object) {
	d := r.d
	if e.pastRun != nil {
		d = e.pastRun.d
		f.Dispatches = []int{d.Index, r.d.Index}
	}
	f.Sides = append(f.Sides, r.side(d, e.kind2.String(), e.other, int(e.tg2), e.who2))
	f.Access = accessName(e.kind)
	if e.kind2.writes() {
		f.Access = "write"
	}
	flag := "mem_device"
	if obj.Space == ir.Threadgroup {
		flag = "mem_threadgroup"
	}
	f.Between = "simdgroups"
	who, missing := "two simdgroups", fmt.Sprintf("no threadgroup_barrier(mem_flags::%s) between", flag)
	switch {
	case e.pastRun != nil:
		f.Between = "dispatches"
		who, missing = "two dispatches", "no memory barrier between"
	case e.groups:
		f.Between = "threadgroups"
		who, missing = "two threadgroups", "which nothing orders within a dispatch"
	case e.inside:
		f.Between = "lanes"
		who, missing = "two lanes of one simdgroup", fmt.Sprintf("no simdgroup_barrier or threadgroup_barrier with mem_flags::%s between", flag)
		if e.pos == e.other {
			missing = "in one statement"
		}
	}
	f.Message = fmt.Sprintf("%s and %s of the same bytes of %s by %s, %s", e.kind2, e.kind, nameOf(obj), who, missing)
	if e.equal {
		f.Message += " (equal values)"
	}
}

func (r *Run) boundsFinding(f *Finding, e *event, obj *Object) {
	if e.null {
		f.Space = "device"
		f.Message = fmt.Sprintf("%s through a null pointer", e.kind)
		return
	}
	size := int64(obj.Size)
	switch {
	case size == 0 && obj.Param >= 0:
		f.Message = fmt.Sprintf("%s of %s, which is not bound", e.kind, nameOf(obj))
	case e.lo < 0:
		f.Past = e.lo
		f.Message = fmt.Sprintf("%s %d bytes before the start of %s", e.kind, -e.lo, nameOf(obj))
	default:
		f.Past = e.past
		f.Message = fmt.Sprintf("%s up to %d bytes past the end of %s of %d bytes", e.kind, e.past, nameOf(obj), size)
	}
	if obj.Buffer != nil && obj.Buffer.Size != obj.Size {
		f.Message += fmt.Sprintf(" (buffer %q has %d)", obj.Buffer.Name, obj.Buffer.Size)
	}
}

// checkOutput reports the elements of an output that nobody wrote.
func (c *Checker) checkOutput(x *output) {
	var f *Finding
	count := 0
	x.written.gaps(0, x.n, func(off, n int) {
		lo, hi := int64(x.off+off), int64(x.off+off+n)
		if f == nil {
			f = c.outputFinding(KindUnwrittenOutput, x)
			f.Offset, f.BufferOffset = int64(off), lo
			f.Bytes = &[2]int64{lo, hi}
		}
		f.Bytes[1] = hi
		count += (off+n+x.elemSize-1)/x.elemSize - off/x.elemSize
	})
	if f == nil {
		return
	}
	f.Count = count
	f.Message = fmt.Sprintf("no thread wrote %d of the %d elements of output %q: the first is element %d, the last %d",
		count, x.n/x.elemSize, x.buf.Name, f.Offset/int64(x.elemSize), (f.Bytes[1]-int64(x.off)-1)/int64(x.elemSize))
	for _, s := range x.stores {
		side := Side{What: "store", Location: c.locate(s.d.Kernel, s.pos), Kernel: s.d.Kernel.Name, Dispatch: s.d.Index}
		if !slices.ContainsFunc(f.Sides, func(o Side) bool { return o.Location.String() == side.Location.String() }) {
			f.Sides = append(f.Sides, side)
		}
	}
	if len(f.Sides) == 0 {
		for _, s := range x.declared {
			f.Sides = append(f.Sides, Side{What: "parameter", Location: c.locate(s.d.Kernel, s.pos), Kernel: s.d.Kernel.Name, Dispatch: s.d.Index})
		}
	}
	c.report.Add(f)
}

func (c *Checker) outputFinding(kind string, x *output) *Finding {
	f := &Finding{
		Kind: kind, Severity: Error, Space: "device", Argument: x.argument, Buffer: x.buf.Name,
		Access: "write", Extent: x.n, Allocation: x.buf.Size, ElementSize: x.elemSize,
	}
	for _, s := range slices.Concat(x.stores, x.declared) {
		if f.Kernel == "" {
			f.Kernel, f.Label = s.d.Kernel.Name, s.d.Label
		}
		if !contains(f.Dispatches, s.d.Index) {
			f.Dispatches = append(f.Dispatches, s.d.Index)
		}
	}
	return f
}

// WrongElements reports elements of an output whose values are wrong, at the last
// store to each: kind is KindMismatch or KindNaN. elements are indices in the
// buffer, of elemSize bytes; detail says what is wrong with the first. It needs
// the buffer to be an Output.
func (c *Checker) WrongElements(kind string, b *Buffer, elemSize int, elements []int, detail string) {
	c.wrongElements(c.outputs, kind, b, elemSize, elements, detail)
}

func (c *Checker) wrongElements(outputs []*output, kind string, b *Buffer, elemSize int, elements []int, detail string) {
	byPlace := map[string]*Finding{}
	for _, e := range elements {
		at := e * elemSize
		f := &Finding{Kind: kind, Severity: Error, Buffer: b.Name, Space: "device", Access: "write", Allocation: b.Size, ElementSize: elemSize}
		for _, x := range outputs {
			if x.buf != b || at < x.off || at >= x.off+x.n {
				continue
			}
			f = c.outputFinding(kind, x)
			f.ElementSize = elemSize
			if r, s, ok := x.lastStore(at); ok {
				f.Kernel, f.Label, f.Dispatches = r.d.Kernel.Name, r.d.Label, []int{r.d.Index}
				side := r.side(r.d, "store", ir.Pos(s.pos), int(s.tg)-1, s.who&(sgMask|laneMask))
				f.Sides = []Side{side}
				f.Argument = r.objects[s.who>>10].Name
				f.From = c.madeFrom(r.d.Kernel, ir.Pos(s.pos))
			}
			break
		}
		key := f.key()
		old := byPlace[key]
		if old == nil {
			f.Offset, f.BufferOffset = int64(at), int64(at)
			f.Bytes = &[2]int64{int64(at), int64(at + elemSize)}
			f.Message = fmt.Sprintf("output %q: element %d %s", b.Name, e, detail)
			f.Count = 1
			byPlace[key] = f
			c.report.Add(f)
			continue
		}
		old.Count++
		old.Bytes[0], old.Bytes[1] = min(old.Bytes[0], int64(at)), max(old.Bytes[1], int64(at+elemSize))
	}
}

// CheckNaN reports the NaN elements of an output that some thread wrote. data is
// the buffer's content, t its element type; types without NaN have none.
func (c *Checker) CheckNaN(b *Buffer, data []byte, t ir.Type) {
	c.checkNaN(c.outputs, b, data, t)
}

func (c *Checker) checkNaN(outputs []*output, b *Buffer, data []byte, t ir.Type) {
	size := map[ir.Type]int{ir.F32: 4, ir.F16: 2, ir.BF16: 2}[t]
	if size == 0 || c.mode < Mem {
		return
	}
	var wrong []int
	for _, x := range outputs {
		if x.buf != b {
			continue
		}
		for e := (x.off + size - 1) / size; (e+1)*size <= min(x.off+x.n, len(data)); e++ {
			if isNaN(data[e*size:], t) && x.written.covers(e*size-x.off, size) {
				wrong = append(wrong, e)
			}
		}
	}
	if len(wrong) > 0 {
		c.wrongElements(outputs, KindNaN, b, size, wrong, "is NaN")
	}
}

func isNaN(b []byte, t ir.Type) bool {
	switch t {
	case ir.F32:
		return binary.LittleEndian.Uint32(b)&0x7fffffff > 0x7f800000
	case ir.F16:
		return binary.LittleEndian.Uint16(b)&0x7fff > 0x7c00
	default:
		return binary.LittleEndian.Uint16(b)&0x7fff > 0x7f80
	}
}

// OutputBuffer finds a registered output by its buffer's name; nil if there is
// none.
func (c *Checker) OutputBuffer(name string) *Buffer {
	for _, x := range c.outputs {
		if x.buf.Name == name {
			return x.buf
		}
	}
	return nil
}

// Written says whether the dispatches wrote every byte of a range of an output.
func (c *Checker) Written(b *Buffer, off, n int) bool {
	for _, x := range c.outputs {
		if x.buf == b && off >= x.off && off+n <= x.off+x.n && x.written.covers(off-x.off, n) {
			return true
		}
	}
	return false
}
