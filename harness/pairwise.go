package harness

import "slices"

// Pairwise gives rows of value indices, one index for each factor, such that
// every pair of values of any two factors occurs in some row; levels has each
// factor's number of values, all at least 1. The first row is all zeros. The rows
// are found one at a time, each as good as a greedy choice makes it (the method of
// Cohen, Dalal, Fredman and Patton, "The AETG System", 1997, with a fixed instead
// of a random order), so equal levels give equal rows.
func Pairwise(levels []int) [][]int {
	open := newPairs(levels)
	var rows [][]int
	if len(levels) > 0 {
		rows = append(rows, make([]int, len(levels)))
		open.cover(rows[0])
	}
	for open.left > 0 {
		var best []int
		gain := 0
		// A few starting points are enough: the order in which factors are fixed is
		// what makes rows differ.
		for start := range 4 * len(levels) {
			row := open.row(start)
			if g := open.gain(row); g > gain {
				best, gain = row, g
			}
		}
		rows = append(rows, best)
		open.cover(best)
	}
	return rows
}

// pairs holds the pairs that no row has yet.
type pairs struct {
	levels []int
	open   map[pair]bool
	left   int
}

// pair is value a of factor i beside value b of factor j, i < j.
type pair struct{ i, a, j, b int }

func newPairs(levels []int) *pairs {
	p := &pairs{levels: levels, open: map[pair]bool{}}
	for i, n := range levels {
		for j := i + 1; j < len(levels); j++ {
			for a := range n {
				for b := range levels[j] {
					p.open[pair{i, a, j, b}] = true
				}
			}
		}
	}
	p.left = len(p.open)
	return p
}

func ordered(i, a, j, b int) pair {
	if i > j {
		i, a, j, b = j, b, i, a
	}
	return pair{i, a, j, b}
}

// row fixes one factor after another, beginning at start's, each at the value
// that has most open pairs with those fixed before. A factor's values are tried
// from start on, so that starts differ; the first factor takes the value that has
// most open pairs at all.
func (p *pairs) row(start int) []int {
	n := len(p.levels)
	row := make([]int, n)
	var fixed []int
	for k := range n {
		f := (start + k*(1+start/n)) % n
		for slices.Contains(fixed, f) {
			f = (f + 1) % n
		}
		best, most := 0, -1
		for v := range p.levels[f] {
			v = (v + start) % p.levels[f]
			open := 0
			for _, g := range fixed {
				if p.open[ordered(f, v, g, row[g])] {
					open++
				}
			}
			if len(fixed) == 0 {
				open = p.openOf(f, v)
			}
			if open > most {
				best, most = v, open
			}
		}
		row[f] = best
		fixed = append(fixed, f)
	}
	return row
}

// openOf counts the open pairs of one value.
func (p *pairs) openOf(f, v int) int {
	n := 0
	for g, levels := range p.levels {
		for b := range levels {
			if g != f && p.open[ordered(f, v, g, b)] {
				n++
			}
		}
	}
	return n
}

// gain counts the open pairs that a row has.
func (p *pairs) gain(row []int) int {
	n := 0
	for i := range row {
		for j := i + 1; j < len(row); j++ {
			if p.open[pair{i, row[i], j, row[j]}] {
				n++
			}
		}
	}
	return n
}

func (p *pairs) cover(row []int) {
	for i := range row {
		for j := i + 1; j < len(row); j++ {
			if at := (pair{i, row[i], j, row[j]}); p.open[at] {
				p.open[at] = false
				p.left--
			}
		}
	}
}
