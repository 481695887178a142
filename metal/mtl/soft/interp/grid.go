package interp

import "minfer/metal/msl/ir"

// shape is the launch's geometry, fixed for all threadgroups.
type shape struct {
	threads [3]int // of the grid
	groups  [3]int
	tg      [3]int // threads of a full threadgroup
	ragged  bool
}

func (l *Launch) shape() shape {
	g := shape{tg: l.Threadgroup, ragged: l.Ragged}
	for i := range 3 {
		if l.Ragged {
			g.threads[i] = l.Grid[i]
			g.groups[i] = (l.Grid[i] + g.tg[i] - 1) / g.tg[i]
		} else {
			g.groups[i] = l.Grid[i]
			g.threads[i] = l.Grid[i] * g.tg[i]
		}
	}
	return g
}

// at gives the position of the n-th threadgroup.
func (g *shape) at(n int) [3]int {
	return [3]int{n % g.groups[0], n / g.groups[0] % g.groups[1], n / g.groups[0] / g.groups[1]}
}

// size is the number of threads of the threadgroup at a position: less than tg
// at the edges of a ragged grid.
func (g *shape) size(at [3]int) [3]int {
	var n [3]int
	for i := range 3 {
		n[i] = min(g.tg[i], g.threads[i]-at[i]*g.tg[i])
	}
	return n
}

func (w *worker) gridScalar(s *simdgroup, imm uint64) uint32 {
	c := imm & 3
	simds := func(n [3]int) int { return (n[0]*n[1]*n[2] + 31) / 32 }
	var x int
	switch ir.GridKind(imm >> 2) {
	case ir.ThreadgroupPositionInGrid:
		x = w.at[c]
	case ir.ThreadsPerGrid, ir.GridSize:
		x = w.grid.threads[c]
	case ir.ThreadsPerThreadgroup:
		x = w.size[c]
	case ir.DispatchThreadsPerThreadgroup:
		x = w.grid.tg[c]
	case ir.ThreadgroupsPerGrid:
		x = w.grid.groups[c]
	case ir.SimdgroupIndexInThreadgroup:
		x = s.index
	case ir.SimdgroupsPerThreadgroup:
		x = simds(w.size)
	case ir.DispatchSimdgroupsPerThreadgroup:
		x = simds(w.grid.tg)
	case ir.ThreadsPerSimdgroup:
		x = 32
	case ir.QuadgroupsPerThreadgroup:
		x = (w.size[0]*w.size[1]*w.size[2] + 3) / 4
	}
	return uint32(x)
}

func (w *worker) gridLanes(s *simdgroup, imm uint64, d *[32]uint32) {
	c := imm & 3
	first := s.index * 32
	kind := ir.GridKind(imm >> 2)
	switch kind {
	case ir.ThreadIndexInThreadgroup:
		for l := range d {
			d[l] = uint32(first + l)
		}
	case ir.ThreadIndexInSimdgroup:
		for l := range d {
			d[l] = uint32(l)
		}
	case ir.ThreadIndexInQuadgroup:
		for l := range d {
			d[l] = uint32(l & 3)
		}
	case ir.QuadgroupIndexInThreadgroup:
		for l := range d {
			d[l] = uint32((first + l) / 4)
		}
	default: // positions
		base := 0
		if kind == ir.ThreadPositionInGrid {
			base = w.at[c] * w.grid.tg[c]
		}
		sx, sy := w.size[0], w.size[1]
		for l := range d {
			n := first + l
			switch c {
			case 0:
				n %= sx
			case 1:
				n = n / sx % sy
			default:
				n = n / sx / sy
			}
			d[l] = uint32(base + n)
		}
	}
}
