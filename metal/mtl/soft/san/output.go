package san

import (
	"math/bits"

	"minfer/metal/msl/ir"
)

// lastPage holds, for pageBytes bytes of an output, which store came last.
type lastPage [pageBytes]lastStore

// lastStore is a store by a threadgroup (linear index + 1). Of two threadgroups
// the greater one counts as later, whatever the schedule was.
type lastStore struct {
	tg  uint32
	pos int32
	who uint16
}

func (w *Worker) keepLast(sg, buf, base int, a *Access) {
	t := w.run.bufs[buf]
	if w.last[buf] == nil {
		w.last[buf] = map[int]*lastPage{}
	}
	n := a.ElemSize * a.Count
	var page *lastPage
	index := -1
	for m := a.Mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m)
		at := base + int(a.offset(lane))
		s := lastStore{w.group + 1, int32(a.Pos), uint16(a.Obj.id<<10 | sg<<5 | lane)}
		for end := at + n; at < end; at += 1 << t.unit {
			if at>>pageShift != index {
				index = at >> pageShift
				page = w.last[buf][index]
				if page == nil {
					page = new(lastPage)
					w.last[buf][index] = page
				}
			}
			page[at&(pageBytes-1)>>t.unit] = s
		}
	}
}

func (t *tracked) mergeLast(index int, p *lastPage) {
	q := t.last[index]
	if q == nil {
		t.last[index] = p
		return
	}
	for i := range q {
		if p[i].tg > q[i].tg {
			q[i] = p[i]
		}
	}
}

// output is a range of a buffer whose every element must be written.
type output struct {
	buf      *Buffer
	off, n   int
	elemSize int
	elem     string
	scalar   ir.Type // of a binding's output
	written  *bitmap
	runs     []*Run
	argument string
	stores   []place // of stores to it in the kernels that bind it
	declared []place // of the parameter
}

// place is a position in a kernel.
type place struct {
	d   *Dispatch
	pos ir.Pos
}

func newOutput(b *Buffer, off, n, elemSize int, elem string) *output {
	elemSize = max(1, elemSize)
	return &output{buf: b, off: off, n: n, elemSize: elemSize, elem: elem, written: newBitmap(n)}
}

// take adds what a finished dispatch wrote.
func (x *output) take(r *Run) {
	u := r.c.use(r.d.Kernel)
	for _, b := range r.d.Bindings {
		if b.Buffer != x.buf || b.Offset >= x.off+x.n || x.off >= b.Offset+b.Length {
			continue
		}
		p := r.d.Kernel.Params[b.Param]
		for _, pos := range u.stores[b.Param] {
			x.stores = append(x.stores, place{r.d, pos})
		}
		if len(u.stores[b.Param]) > 0 || x.argument == "" {
			x.argument = p.Name
		}
		x.declared = append(x.declared, place{r.d, p.Pos})
	}
	for _, t := range r.bufs {
		if t.buf != x.buf || t.written.count() == 0 {
			continue
		}
		// What lies between the gaps was written.
		at := max(0, x.off-t.lo)
		mark := func(from, to int) {
			x.written.put(from+t.lo-x.off, to-from, true)
		}
		t.written.gaps(at, x.off+x.n-t.lo-at, func(off, n int) {
			if off > at {
				mark(at, off)
			}
			at = off + n
		})
		if end := min(x.off-t.lo+x.n, t.hi-t.lo); end > at {
			mark(at, end)
		}
		x.runs = append(x.runs, r)
	}
}

// lastStore finds the last store to a byte of the buffer.
func (x *output) lastStore(off int) (*Run, lastStore, bool) {
	for i := len(x.runs) - 1; i >= 0; i-- {
		r := x.runs[i]
		for _, t := range r.bufs {
			if t.buf != x.buf || off < t.lo || off >= t.hi {
				continue
			}
			at := off - t.lo
			if p := t.last[at>>pageShift]; p != nil {
				if s := p[at&(pageBytes-1)>>t.unit]; s.tg != 0 {
					return r, s, true
				}
			}
		}
	}
	return nil, lastStore{}, false
}
