package san

import (
	"math/bits"

	"minfer/metal/msl/ir"
)

// Options of a Checker.
type Options struct {
	// Source gives the text of a source line for reports, "" where unknown.
	Source func(file string, line int) string
}

// Checker is the sanitizer of one command buffer.
type Checker struct {
	mode     Mode
	opt      Options
	report   *Report
	uses     map[*ir.Func]*uses
	interval []*Dispatch
	past     []*Run // of the interval, where it has more than one dispatch
	outputs  []*output
}

// New returns a checker of the given mode.
func New(mode Mode, o Options) *Checker {
	if o.Source == nil {
		o.Source = func(string, int) string { return "" }
	}
	return &Checker{mode: mode, opt: o, report: &Report{Mode: mode.String()}, uses: map[*ir.Func]*uses{}}
}

// Mode is the checker's mode.
func (c *Checker) Mode() Mode { return c.mode }

// Report is what was found so far.
func (c *Checker) Report() *Report { return c.report }

func (c *Checker) use(f *ir.Func) *uses {
	u := c.uses[f]
	if u == nil {
		u = analyse(f)
		c.uses[f] = u
	}
	return u
}

// Output asks that every element of n bytes of a buffer be written by the
// dispatches of the command buffer together. Call it before the first Begin.
// Binding.Output asks the same of a single dispatch.
func (c *Checker) Output(b *Buffer, off, n, elemSize int, elem string) {
	if c.mode == Off {
		return
	}
	c.outputs = append(c.outputs, newOutput(b, off, n, elemSize, elem))
}

// BeginInterval announces all dispatches up to the next memory barrier, so that
// only memory that one of them writes is watched.
func (c *Checker) BeginInterval(ds []*Dispatch) {
	c.interval = ds
	c.past = nil
}

// written says whether a dispatch of the interval may write a byte of the
// buffer's range.
func (c *Checker) written(b *Buffer, off, n int) bool {
	for _, d := range c.interval {
		if d.writes(c, b, off, n) {
			return true
		}
	}
	return false
}

func (d *Dispatch) writes(c *Checker, b *Buffer, off, n int) bool {
	u := c.use(d.Kernel)
	for _, x := range d.Bindings {
		if x.Buffer == b && u.writes>>x.Param&1 != 0 && x.Offset < off+n && off < x.Offset+x.Length {
			return true
		}
	}
	return false
}

// Run is one dispatch under the sanitizer.
type Run struct {
	// Params are the objects by index in Func.Params: device and constant bindings
	// and threadgroup arguments; an unbound buffer is an object of size 0. Statics
	// and Allocas go by their index likewise.
	Params, Statics, Allocas []*Object
	// Tables are the constant objects by index in Func.Tables, for reports.
	Tables []*Object
	// Memory gives a buffer's content at End, for the NaN check of outputs that the
	// dispatch asks for; nil leaves it out.
	Memory func(b *Buffer) []byte
	// Threadgroup is the size of a threadgroup's memory: arguments, then variables,
	// each at its object's Base.
	Threadgroup int

	c       *Checker
	d       *Dispatch
	bufs    []*tracked
	objects []*Object // by Object.id
	private int       // bytes of the allocas of one lane
	ordered bool
	workers []*Worker
	outputs []*output
}

// tracked is a buffer of a dispatch.
type tracked struct {
	buf    *Buffer
	lo, hi int  // the bindings' union, bytes
	mark   bool // written by the dispatch
	track  bool
	unit   uint // log2 of the granule of last stores; outputs only
	output bool

	pages   []*page // merged, after End
	written *bitmap
	last    map[int]*lastPage
}

// Begin starts a dispatch of the interval with so many workers.
func (c *Checker) Begin(d *Dispatch, workers int) *Run {
	if len(c.interval) == 0 {
		c.interval = []*Dispatch{d}
	}
	r := &Run{c: c, d: d}
	f := d.Kernel
	u := c.use(f)
	for i, p := range f.Params {
		o := &Object{Space: p.Space, Name: p.Name, Param: i, Static: -1, Alloca: -1, Elem: p.Elem, ElemSize: max(1, p.ElemSize), buf: -1}
		if p.Kind == ir.ThreadgroupParam {
			if p.Index < len(d.ThreadgroupBytes) {
				o.Size = d.ThreadgroupBytes[p.Index]
			}
			r.place(o, 16)
		}
		r.Params = append(r.Params, o)
		r.add(o)
	}
	for _, b := range d.Bindings {
		if b.Param < 0 || b.Param >= len(r.Params) {
			continue
		}
		r.bind(r.Params[b.Param], b, u)
	}
	for i, s := range f.Statics {
		o := &Object{Space: ir.Threadgroup, Name: s.Name, Param: -1, Static: i, Alloca: -1, Size: s.Size, ElemSize: 1, buf: -1}
		r.place(o, s.Align)
		r.Statics = append(r.Statics, o)
		r.add(o)
	}
	for i, s := range f.Allocas {
		o := &Object{Space: ir.Thread, Name: s.Name, Param: -1, Static: -1, Alloca: i, Size: s.Size, ElemSize: 1, buf: -1, Base: r.private}
		r.private += s.Size
		o.Poison, o.Mark = c.mode >= Mem, c.mode >= Mem
		r.Allocas = append(r.Allocas, o)
		r.add(o)
	}
	for _, t := range f.Tables {
		o := &Object{Space: ir.Constant, Name: t.Name, Param: -1, Static: -1, Alloca: -1, Size: len(t.Data), ElemSize: 1, buf: -1}
		r.Tables = append(r.Tables, o)
		r.add(o)
	}
	for _, t := range r.bufs {
		t.written = newBitmap(t.hi - t.lo)
	}
	// With outputs whose values are looked at, two threadgroups that store to one
	// place must do so in an order that is always the same.
	r.ordered = c.mode >= Mem && (u.atomics || r.readsOwn(u) || len(c.outputs) > 0)
	for range max(1, workers) {
		r.workers = append(r.workers, newWorker(r))
	}
	return r
}

func (r *Run) add(o *Object) {
	o.id = len(r.objects)
	r.objects = append(r.objects, o)
}

// place gives a threadgroup object its place in the threadgroup's memory.
func (r *Run) place(o *Object, align int) {
	align = max(1, align)
	r.Threadgroup = (r.Threadgroup + align - 1) / align * align
	o.Base = r.Threadgroup
	r.Threadgroup += o.Size
	o.Track = r.c.mode >= Race
	o.Poison, o.Mark = r.c.mode >= Mem, r.c.mode >= Mem
}

// bind completes a parameter's object.
func (r *Run) bind(o *Object, b Binding, u *uses) {
	o.Buffer, o.Base, o.Size, o.Output = b.Buffer, b.Offset, b.Length, b.Output
	o.Tensor = b.Name
	c := r.c
	if b.Buffer == nil || c.mode == Off {
		return
	}
	writes := u.writes>>b.Param&1 != 0
	o.Track = c.mode >= Race && c.written(b.Buffer, b.Offset, b.Length)
	o.Poison = !b.Buffer.Defined(b.Offset, b.Length)
	wanted := b.Output
	for _, x := range c.outputs {
		wanted = wanted || x.buf == b.Buffer
	}
	if b.Output {
		x := newOutput(b.Buffer, b.Offset, b.Length, o.ElemSize, o.Elem)
		x.scalar = r.d.Kernel.Params[b.Param].Scalar
		r.outputs = append(r.outputs, x)
	}
	o.Mark = writes && (wanted || o.Poison)
	o.buf = r.tracked(b.Buffer)
	t := r.bufs[o.buf]
	if t.hi == 0 {
		t.lo, t.hi = b.Offset, b.Offset+b.Length
	}
	// Pages of shadow begin at multiples of pageBytes, so that all dispatches of an
	// interval have the same ones.
	t.lo = min(t.lo, b.Offset) &^ (pageBytes - 1)
	t.hi = max(t.hi, b.Offset+b.Length)
	t.mark = t.mark || o.Mark
	t.track = t.track || o.Track
	if wanted {
		t.output = true
		t.unit = min(uint(bits.TrailingZeros(uint(o.ElemSize))), 2)
	}
}

func (r *Run) tracked(b *Buffer) int {
	for i, t := range r.bufs {
		if t.buf == b {
			return i
		}
	}
	r.bufs = append(r.bufs, &tracked{buf: b, last: map[int]*lastPage{}})
	return len(r.bufs) - 1
}

// readsOwn says whether the dispatch may read what it writes.
func (r *Run) readsOwn(u *uses) bool {
	for _, b := range r.d.Bindings {
		if b.Buffer != nil && u.reads>>b.Param&1 != 0 && r.d.writes(r.c, b.Buffer, b.Offset, b.Length) {
			return true
		}
	}
	return false
}

// Ordered says that threadgroups must run in ascending order on one worker for
// findings not to depend on scheduling: what they read, or what outputs hold in
// the end, depends on what others wrote.
func (r *Run) Ordered() bool { return r.ordered }

// Worker returns the i-th worker's state.
func (r *Run) Worker(i int) *Worker { return r.workers[i] }

// End merges the workers' findings, compares threadgroups with each other and the
// dispatch with the earlier ones of the interval, and checks the dispatch's
// outputs.
func (r *Run) End() {
	found := r.workers[0].found
	for _, w := range r.workers[1:] {
		for k, o := range w.found {
			found.merge(k, o)
		}
	}
	for i, t := range r.bufs {
		for _, w := range r.workers {
			if w.written[i] != nil {
				t.written.or(w.written[i])
			}
			for n, p := range w.last[i] {
				t.mergeLast(n, p)
			}
		}
		if t.track {
			for _, w := range r.workers {
				t.pages = mergePages(t.pages, w.dev[i].pages)
			}
			r.compareGroups(found, i)
		}
		if t.mark {
			t.settle()
		}
	}
	for _, past := range r.c.past {
		r.compareDispatches(found, past)
	}
	r.report(found)
	for _, x := range r.outputs {
		x.take(r)
		r.c.checkOutput(x)
		if r.Memory != nil {
			r.c.checkNaN([]*output{x}, x.buf, r.Memory(x.buf), x.scalar)
		}
	}
	for _, x := range r.c.outputs {
		x.take(r)
	}
	if len(r.c.interval) > 1 && r.c.mode >= Race {
		r.c.past = append(r.c.past, r)
	}
	r.workers = nil
}

// settle marks what the dispatch wrote as defined.
func (t *tracked) settle() {
	if t.written.full {
		t.buf.Define(t.lo, t.hi-t.lo)
		return
	}
	gap := 0
	t.written.gaps(0, t.hi-t.lo, func(off, n int) {
		t.buf.Define(t.lo+gap, off-gap)
		gap = off + n
	})
	t.buf.Define(t.lo+gap, t.hi-t.lo-gap)
}

func mergePages(dst, src []*page) []*page {
	if dst == nil {
		return src
	}
	for i, p := range src {
		q := dst[i]
		if p == nil {
			continue
		}
		if q == nil {
			dst[i] = p
			continue
		}
		p.refine(min(p.shift, q.shift))
		q.refine(p.shift)
		for j := range q.rows {
			switch {
			case !p.rows[j].used():
			case !q.rows[j].used() && p.rows[j].state != rowCells:
				q.rows[j] = p.rows[j]
			default:
				p.expandRow(j)
				q.expandRow(j)
			}
		}
		if p.cells == nil || q.cells == nil {
			continue
		}
		for j := range q.sums {
			if p.rows[j<<p.shift/rowBytes].state != rowCells {
				continue
			}
			q.sums[j].merge(&p.sums[j])
		}
		if p.atomics != nil && q.atomics == nil {
			q.atomics = p.atomics
		} else if p.atomics != nil {
			for j := range q.atomics {
				a, b := &q.atomics[j], &p.atomics[j]
				widen(&a.wmin, &a.wmax, b.wmin)
				widen(&a.wmin, &a.wmax, b.wmax)
				widen(&a.rmin, &a.rmax, b.rmin)
				widen(&a.rmin, &a.rmax, b.rmax)
			}
		}
	}
	return dst
}

// Finish checks the outputs of the command buffer.
func (c *Checker) Finish() {
	for _, x := range c.outputs {
		c.checkOutput(x)
	}
	c.past, c.interval = nil, nil
}
