package san

// A key packs who accessed and when, newest generations greatest:
//
//	bits 34..63 gen   generation: counts barriers that name the memory, and
//	                  threadgroups, so that a smaller one is always ordered before
//	bits 14..33 sf    the simdgroup's own barriers that name the memory
//	bit  10     dark  the value of the write is unknown
//	bits  5..9  sg    simdgroup
//	bits  0..4  lane
const (
	genShift = 34
	sfShift  = 14
	sgShift  = 5
	laneMask = 31
	sgMask   = 31 << sgShift
	sfMask   = 1<<20 - 1
	darkBit  = 1 << 10
)

func keyLane(k uint64) int { return int(k & laneMask) }

// sameStep says whether two keys of one generation and one simdgroup have no
// simdgroup barrier between.
func sameStep(a, b uint64) bool { return a>>sfShift == b>>sfShift }

// cell is the state of one granule of memory within a threadgroup: its last
// write and last reads since the beginning of time; what lies in an older
// generation is ordered and counts for nothing.
//
// The last write is enough: a write that replaced another was ordered after it,
// or their conflict was reported. Of readers, the last simdgroup's lanes are
// kept, and in cold one reader of another simdgroup: a later write conflicts with
// one of the two or with none.
type cell struct {
	w, r       uint64
	rmask      uint32 // lanes that read under key r
	val        uint32 // of the last write
	wpos, rpos int32
}

// cold is the part of a cell that few accesses need.
type cold struct {
	r0            uint64 // equals cell.r where mask0 and pos0 hold: lanes that read before at another place
	mask0         uint32
	pos0          int32
	other         uint64 // last reader of a simdgroup other than cell.r's
	otherPos      int32
	a, ao         uint64 // last atomic that may write; that of another simdgroup before
	ar, aro       uint64 // last atomic read; that of another simdgroup before
	aPos, aoPos   int32
	arPos, aroPos int32
	amask         uint32 // lanes of a
	armask        uint32 // lanes of ar
}

// party is one side of a possible race between threadgroups.
type party struct {
	tg  uint32 // linear index + 1; 0 is nobody
	pos int32
	who uint16 // object<<10 | simdgroup<<5 | lane
}

// summary is what all threadgroups that a worker ran did to one granule. The
// least and the greatest threadgroup are enough to tell whether two differ, and
// merging is commutative.
type summary struct {
	wmin, wmax, rmin, rmax party
	val                    uint32
	differ                 uint8 // a bit a byte: plain writes of unequal values
}

// atomics is the same for atomic accesses.
type atomics struct{ wmin, wmax, rmin, rmax party }

// page is the shadow of pageBytes bytes, in granules of 1<<shift bytes: 4, 2 or
// 1. It starts with 4 and is refined, for good, by the first access that does
// not fit. All bytes of a granule have one history.
type page struct {
	rows    [pageBytes / rowBytes]row
	shift   uint
	atomic  bool
	cells   []cell // nil while all rows are whole, as sums
	cold    []cold // nil until needed
	sums    []summary
	device  bool // sums are needed
	atomics []atomics
}

const (
	pageShift = 10
	pageBytes = 1 << pageShift
	coarse    = 2 // initial shift
)

func newPage(sums bool) *page { return &page{shift: coarse, device: sums} }

// allocate makes the cells.
func (p *page) allocate() {
	if p.cells != nil {
		return
	}
	p.cells = make([]cell, pageBytes>>p.shift)
	if p.device {
		p.sums = make([]summary, pageBytes>>p.shift)
	}
}

func (p *page) chill(i int) *cold {
	if p.cold == nil {
		p.cold = make([]cold, len(p.cells))
	}
	return &p.cold[i]
}

// refine splits granules until they are 1<<shift bytes.
func (p *page) refine(shift uint) {
	for p.shift > shift {
		p.cells = split(p.cells)
		p.cold = split(p.cold)
		p.sums = split(p.sums)
		p.atomics = split(p.atomics)
		p.shift--
		half := uint(8) << p.shift
		mask := uint32(1)<<half - 1
		for i := range p.cells {
			c := &p.cells[i]
			c.val = c.val >> (half * uint(i&1)) & mask
		}
		for i := range p.sums {
			s := &p.sums[i]
			s.val = s.val >> (half * uint(i&1)) & mask
			s.differ = s.differ >> (half / 8 * uint(i&1)) & (1<<(half/8) - 1)
		}
	}
}

func split[T any](s []T) []T {
	if s == nil {
		return nil
	}
	out := make([]T, 2*len(s))
	for i, v := range s {
		out[2*i], out[2*i+1] = v, v
	}
	return out
}

// shadow watches one piece of memory for one worker.
type shadow struct {
	gen   uint64        // already shifted
	sf    [Lanes]uint64 // by simdgroup, already shifted
	pages []*page       // by offset >> pageShift
	sums  bool          // device memory: compare threadgroups too
}

// tick is a barrier of the threadgroup that names this memory.
func (s *shadow) tick() { s.gen += 1 << genShift }

// tickSg is a barrier of one simdgroup that names this memory.
func (s *shadow) tickSg(sg int) {
	s.sf[sg] = (s.sf[sg] + 1<<sfShift) & (sfMask << sfShift)
}

func (s *shadow) page(off int) *page {
	p := s.pages[off>>pageShift]
	if p == nil {
		p = newPage(s.sums)
		s.pages[off>>pageShift] = p
	}
	return p
}
