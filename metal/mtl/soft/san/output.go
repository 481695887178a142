package san

import (
	"math/bits"

	"minfer/metal/msl/ir"
)

// lastPage holds, for pageBytes bytes of an output, which store came last.
type lastPage [pageBytes / rowBytes]lastRow

// lastRow is 128 bytes of it: one store by all lanes in order, or single ones.
type lastRow struct {
	all   lastStore   // of lane 0; its tg is the greatest of the row
	units []lastStore // nil where all is all
}

// lastStore is a store by a threadgroup (linear index + 1). Of two threadgroups
// the greater one counts as later, whatever the schedule was.
type lastStore struct {
	tg  uint32
	pos int32
	who uint16
}

// expand gives each unit of 1<<unit bytes its own store.
func (r *lastRow) expand(unit uint) {
	if r.units != nil {
		return
	}
	r.units = make([]lastStore, rowBytes>>unit)
	if r.all.tg == 0 {
		return
	}
	for i := range r.units {
		r.units[i] = r.all
		r.units[i].who += uint16(i << unit >> 2)
	}
}

// at is the last store to a byte of the row.
func (r *lastRow) at(off int, unit uint) lastStore {
	if r.units != nil {
		return r.units[off>>unit]
	}
	s := r.all
	if s.tg != 0 {
		s.who += uint16(off >> 2)
	}
	return s
}

func (w *Worker) lastPage(buf, index int) *lastPage {
	if w.last[buf] == nil {
		w.last[buf] = map[int]*lastPage{}
	}
	p := w.last[buf][index]
	if p == nil {
		p = new(lastPage)
		w.last[buf][index] = p
	}
	return p
}

func (w *Worker) keepLast(sg, buf, base int, a *Access) {
	t := w.run.bufs[buf]
	s := lastStore{w.group + 1, int32(a.Pos), uint16(a.Obj.id<<10 | sg<<5)}
	n := a.ElemSize * a.Count
	if first := base + int(a.Base); a.Count == 1 && a.rowable() && first&(rowBytes-1) == 0 {
		r := &w.lastPage(buf, first>>pageShift)[first/rowBytes&(pageBytes/rowBytes-1)]
		if s.tg >= r.all.tg {
			*r = lastRow{all: s}
			return
		}
	}
	var page *lastPage
	index := -1
	for m := a.Mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m)
		at := base + int(a.offset(lane))
		mine := s
		mine.who |= uint16(lane)
		for end := at + n; at < end; at += 1 << t.unit {
			if at>>pageShift != index {
				index = at >> pageShift
				page = w.lastPage(buf, index)
			}
			r := &page[at/rowBytes&(pageBytes/rowBytes-1)]
			r.expand(t.unit)
			r.all.tg = max(r.all.tg, mine.tg)
			if u := &r.units[at&(rowBytes-1)>>t.unit]; mine.tg >= u.tg {
				*u = mine
			}
		}
	}
}

// mergeLast takes in another worker's page.
func (t *tracked) mergeLast(index int, p *lastPage) {
	q := t.last[index]
	if q == nil {
		t.last[index] = p
		return
	}
	for i := range q {
		a, b := &q[i], &p[i]
		switch {
		case b.all.tg == 0:
		case a.all.tg == 0 || a.units == nil && b.units == nil && b.all.tg > a.all.tg:
			*a = *b
		case a.units == nil && b.units == nil:
		default:
			a.expand(t.unit)
			b.expand(t.unit)
			a.all.tg = max(a.all.tg, b.all.tg)
			for j := range a.units {
				if b.units[j].tg > a.units[j].tg {
					a.units[j] = b.units[j]
				}
			}
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
				if s := p[at/rowBytes&(pageBytes/rowBytes-1)].at(at&(rowBytes-1), t.unit); s.tg != 0 {
					return r, s, true
				}
			}
		}
	}
	return nil, lastStore{}, false
}
