package san

import (
	"math/bits"

	"minfer/metal/msl/ir"
)

// rowBytes is what 32 lanes with a word each cover.
const rowBytes = 4 * Lanes

// row is the state of 128 bytes as a whole, which is what most accesses of most
// kernels need: all of it last written, last read, or both, by the lanes of one
// simdgroup in order, each with 1, 2 or 4 words. Anything else is kept in cells.
type row struct {
	state      uint8
	pat        uint8  // which lane has which word
	obj        uint8  // of device memory: Object.id of the write; see robj
	robj       uint8  // of the read
	w, r       uint64 // keys without lane; 0 for none
	last       uint64 // rowCells: the generation of the last access
	wpos, rpos int32
	wg, rg     uint32 // device memory: threadgroup + 1
	vals       [Lanes]uint32

	// Threadgroup memory: wgen is the generation of the last write or atomic in the
	// row, mgen that of the last simdgroup-matrix load, matrix what those loads read.
	wgen, mgen uint64
	matrix     [4]matrixRead
}

// matrixRead is what one simdgroup read of a row with simdgroup-matrix loads. The
// lanes are not known: which lane holds which element is not defined.
type matrixRead struct {
	key   uint64
	words uint32
	pos   int32
}

// The states of a row. The zero state is rowWhole without any access.
const (
	rowWhole = iota
	rowCells
)

// A pattern packs the first lane of the row and the binary logarithm of the words
// that a lane has.
func pattern(lane, shift int) uint8 { return uint8(lane | shift<<5) }

func (r *row) lane(word int) int { return int(r.pat&31) + word>>(r.pat>>5) }

// rows takes whole rows at once for as long as that is exact, and returns the
// lanes that are left.
func (w *Worker) rows(s *shadow, a *Access, origin int) uint32 {
	at := origin + int(a.Base)
	if at&(rowBytes-1) != 0 {
		return a.Mask
	}
	shift := bits.TrailingZeros32(uint32(a.Count))
	key := s.gen | s.sf[w.curSg] | uint64(w.curSg)<<sgShift
	for j := range a.Count {
		here := at + j*rowBytes
		p := s.page(here)
		r := &p.rows[here/rowBytes&(len(p.rows)-1)]
		pat := pattern(j*Lanes>>shift, shift)
		if a.Kind == Write {
			if !w.writeRow(s, r, a, key, pat, j) {
				return ^uint32(0) << (j * Lanes >> shift)
			}
		} else if !w.readRow(s, r, a, key, pat) {
			return ^uint32(0) << (j * Lanes >> shift)
		}
	}
	return 0
}

// whole says whether a row can take an access by a pattern as a whole: what it
// holds that still counts has the same pattern and is of the same simdgroup, so
// that each lane meets its own accesses only, and, in device memory, of the same
// threadgroup.
func (w *Worker) whole(s *shadow, r *row, key uint64, pat uint8) bool {
	if r.state == rowCells {
		if s.sums || r.last >= s.gen {
			return false
		}
		// All of it is ordered before.
		*r = row{wgen: r.wgen, mgen: r.mgen, matrix: r.matrix}
	}
	if s.sums {
		g := w.group + 1
		if r.wg != 0 && (r.wg != g || r.pat != pat) || r.rg != 0 && (r.rg != g || r.pat != pat) {
			return false
		}
	}
	for _, then := range [2]uint64{r.w, r.r} {
		if then >= s.gen && ((then^key)&sgMask != 0 || r.pat != pat) {
			return false
		}
	}
	return true
}

func (w *Worker) writeRow(s *shadow, r *row, a *Access, key uint64, pat uint8, j int) bool {
	if r.mgen >= s.gen || !w.whole(s, r, key, pat) {
		return false
	}
	var vals [Lanes]uint32
	if a.Count == 1 {
		if a.Val32[0] == nil {
			return false
		}
		vals = *a.Val32[0]
	} else {
		shift := int(pat >> 5)
		for i := range vals {
			v := a.Val32[i&(1<<shift-1)]
			if v == nil {
				return false
			}
			vals[i] = v[int(pat&31)+i>>shift]
		}
	}
	if s.sums {
		// The summary knows one value: a second one needs cells.
		if r.wg != 0 && r.vals != vals {
			return false
		}
		if r.wg == 0 {
			r.obj = uint8(a.Obj.id)
		}
		r.wg = w.group + 1
	}
	if r.r < s.gen && r.rg == 0 {
		r.r = 0
	}
	r.pat, r.w, r.wpos, r.vals, r.wgen = pat, key, int32(a.Pos), vals, s.gen
	return true
}

func (w *Worker) readRow(s *shadow, r *row, a *Access, key uint64, pat uint8) bool {
	if !w.whole(s, r, key, pat) || r.r == key && r.rpos != int32(a.Pos) {
		return false
	}
	if s.sums {
		if r.rg == 0 {
			r.robj = uint8(a.Obj.id)
		}
		r.rg = w.group + 1
	}
	if r.w < s.gen && r.wg == 0 {
		r.w = 0
	}
	r.pat, r.r, r.rpos = pat, key, int32(a.Pos)
	return true
}

// matrixLoad records a simdgroup-matrix load of threadgroup memory row by row,
// where nothing was written to the rows since the last barrier. It says false, and
// records nothing, where that is not so.
func (w *Worker) matrixLoad(s *shadow, a *Access, origin int) bool {
	n := a.ElemSize * a.Count
	at := origin + int(a.Base)
	if (at|n|int(a.Stride))&3 != 0 || n > rowBytes {
		return false
	}
	key := s.gen | s.sf[w.curSg] | uint64(w.curSg)<<sgShift
	for pass := range 2 {
		for m := a.Mask; m != 0; m &= m - 1 {
			here := at + bits.TrailingZeros32(m)*int(a.Stride)
			word := here & (rowBytes - 1) >> 2
			if word+n>>2 > Lanes {
				return false
			}
			p := s.page(here)
			r := &p.rows[here/rowBytes&(len(p.rows)-1)]
			slot := r.slot(s, key, int32(a.Pos))
			if pass == 0 {
				if slot == nil || r.wgen >= s.gen || r.state == rowWhole && r.w >= s.gen || p.atomic {
					return false
				}
				continue
			}
			if slot.key != key || slot.pos != int32(a.Pos) {
				*slot = matrixRead{key: key, pos: int32(a.Pos)}
			}
			slot.words |= (1<<(n>>2) - 1) << word
			r.mgen = s.gen
		}
	}
	return true
}

// slot is where a row keeps the matrix loads of a simdgroup at a place: a used one,
// or one whose content is ordered before; nil if there is none.
func (r *row) slot(s *shadow, key uint64, pos int32) *matrixRead {
	var free *matrixRead
	for i := range r.matrix {
		x := &r.matrix[i]
		if x.key == key && x.pos == pos {
			return x
		}
		if x.key < s.gen {
			free = x
		}
	}
	return free
}

// againstMatrix compares a write of lanes to a granule with matrix loads.
func (w *Worker) againstMatrix(s *shadow, p *page, i int, key uint64, lanes uint32, at int) {
	r := &p.rows[i<<p.shift/rowBytes]
	word := i << p.shift & (rowBytes - 1) >> 2
	for j := range r.matrix {
		// A matrix that is loaded, changed and stored back stays with its lanes.
		own := w.cur.Matrix
		if x := &r.matrix[j]; x.key >= s.gen && x.words>>word&1 != 0 && !(own && (x.key^key)&sgMask == 0) {
			w.against(s, key, lanes, other{Read, x.key, x.pos}, ^uint32(0), at, false)
		}
	}
}

// open puts the rows of the bytes [at, end) of a page into cells.
func (p *page) open(s *shadow, at, end int, writes bool) {
	for i := at & (pageBytes - 1) / rowBytes; i <= (end-1)&(pageBytes-1)/rowBytes; i++ {
		if r := &p.rows[i]; r.state != rowCells {
			p.expand(r, i)
		}
		p.rows[i].last = s.gen
		if writes {
			p.rows[i].wgen = s.gen
		}
	}
}

// expand writes a whole row out into its cells.
func (p *page) expand(r *row, i int) {
	p.allocate()
	r.state = rowCells
	per := rowBytes >> p.shift
	for k := range per {
		word := k << p.shift >> 2
		lane := r.lane(word)
		c := &p.cells[i*per+k]
		*c = cell{}
		val := r.vals[word] >> (8 * (k << p.shift & 3))
		if p.shift < 2 {
			val &= 1<<(8<<p.shift) - 1
		}
		if r.w != 0 {
			c.w, c.wpos, c.val = r.w|uint64(lane), r.wpos, val
		}
		if r.r != 0 {
			c.r, c.rpos, c.rmask = r.r, r.rpos, 1<<lane
		}
		if p.sums == nil {
			continue
		}
		s := &p.sums[i*per+k]
		if r.wg != 0 {
			q := party{r.wg, r.wpos, uint16(r.obj)<<10 | uint16(r.w&sgMask) | uint16(lane)}
			s.wmin, s.wmax, s.val = q, q, val
		}
		if r.rg != 0 {
			q := party{r.rg, r.rpos, uint16(r.robj)<<10 | uint16(r.r&sgMask) | uint16(lane)}
			s.rmin, s.rmax = q, q
		}
	}
}

// expandRow is expand where the row is not in cells yet.
func (p *page) expandRow(i int) {
	if r := &p.rows[i]; r.state != rowCells {
		p.expand(r, i)
	}
}

// settled says whether a row holds no conflict by itself: a single threadgroup.
func (r *row) settled() bool {
	return r.state != rowCells && (r.wg == 0 || r.rg == 0 || r.wg == r.rg)
}

// used says whether anything is known of a row.
func (r *row) used() bool { return r.state == rowCells || r.w != 0 || r.r != 0 }

// rowable says whether an access may be one of whole rows.
func (a *Access) rowable() bool {
	return a.Off == nil && a.Mask == ^uint32(0) && a.ElemSize == 4 && (a.Count == 1 || a.Count == 2 || a.Count == 4) &&
		a.Stride == int64(4*a.Count) && a.Kind <= Write && (a.Kind == Read || a.Vector <= 4*a.Count) && a.Obj.Space <= ir.Threadgroup
}
