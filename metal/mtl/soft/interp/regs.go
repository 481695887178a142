package interp

import "sort"

// class is the kind of a register: what it holds and so its size.
type class uint8

const (
	cScalar class = iota // a uniform value, or a mask
	cVec                 // 32 lanes of 32 bits
	cWide                // 32 lanes of 64 bits
	cSg                  // 64 float32 of a matrix
)

func (c class) size() int {
	switch c {
	case cScalar:
		return 8
	case cVec:
		return 128
	}
	return 256
}

// reg is a virtual register, until the whole function is emitted.
type reg struct {
	class       class
	first, last int // instructions; first is -1 before the definition
	pinned      bool
	off         uint32
	loops       []int // outermost loops around references that the value enters from outside
}

// loopSpan is the range of a loop's instructions.
type loopSpan struct{ start, end int }

// assign gives every register its place in the frame, sharing places between
// registers that are not alive at the same time, and returns the frame's size.
func assign(regs []reg, loops []loopSpan) int {
	order := make([]int, 0, len(regs))
	for i := range regs {
		r := &regs[i]
		for _, l := range r.loops {
			r.last = max(r.last, loops[l].end)
		}
		if r.first >= 0 || r.pinned {
			order = append(order, i)
		}
	}
	sort.SliceStable(order, func(a, b int) bool {
		x, y := &regs[order[a]], &regs[order[b]]
		if x.pinned != y.pinned {
			return x.pinned
		}
		return x.first < y.first
	})
	// Three areas: scalars, vectors, and everything of 256 bytes. Slot numbers
	// first, offsets when the areas' sizes are known.
	type area struct {
		free   []uint32
		active []int
		n      uint32
	}
	areas := [3]area{}
	areaOf := func(c class) *area {
		switch c {
		case cScalar:
			return &areas[0]
		case cVec:
			return &areas[1]
		}
		return &areas[2]
	}
	for _, i := range order {
		r := &regs[i]
		a := areaOf(r.class)
		if !r.pinned {
			keep := a.active[:0]
			for _, j := range a.active {
				if regs[j].last < r.first {
					a.free = append(a.free, regs[j].off)
				} else {
					keep = append(keep, j)
				}
			}
			a.active = keep
		}
		if n := len(a.free); n > 0 && !r.pinned {
			r.off = a.free[n-1]
			a.free = a.free[:n-1]
		} else {
			r.off = a.n
			a.n++
		}
		if !r.pinned {
			a.active = append(a.active, i)
		}
	}
	vecs := (areas[0].n*8 + 63) &^ 63
	wides := vecs + areas[1].n*128
	for _, i := range order {
		switch r := &regs[i]; r.class {
		case cScalar:
			r.off *= 8
		case cVec:
			r.off = vecs + r.off*128
		default:
			r.off = wides + r.off*256
		}
	}
	return int(wides + areas[2].n*256)
}
