package metalcase

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Pairwise gives rows of value indices, one index for each of the levels, such
// that every pair of values of two factors occurs in some row, as far as allowed
// takes a row with it. Rows may be partial when they are put to allowed: -1 is a
// factor without a value, and a partial row is allowed when some value of each
// such factor makes it so. seeds are rows, partial ones too, that come first. Equal
// arguments give equal rows.
func Pairwise(levels []int, seeds [][]int, allowed func(row []int) bool) [][]int {
	type pair struct{ i, a, j, b int }
	open := map[pair]bool{}
	var order []pair
	for i, n := range levels {
		for j := i + 1; j < len(levels); j++ {
			for a := range n {
				for b := range levels[j] {
					p := pair{i, a, j, b}
					open[p] = true
					order = append(order, p)
				}
			}
		}
	}
	empty := func() []int {
		row := make([]int, len(levels))
		for i := range row {
			row[i] = -1
		}
		return row
	}
	// gain counts the open pairs of factor f's value v with what the row has.
	gain := func(row []int, f, v int) int {
		n := 0
		for g, w := range row {
			if g == f || w < 0 {
				continue
			}
			p := pair{f, v, g, w}
			if g < f {
				p = pair{g, w, f, v}
			}
			if open[p] {
				n++
			}
		}
		return n
	}
	var rows [][]int
	turns := rand.New(rand.NewPCG(1, 0))
	// complete fills the row, the factor that gains most first.
	complete := func(row []int) bool {
		if !allowed(row) {
			return false
		}
		for {
			bestF, bestV, most := -1, 0, -1
			for f := range row {
				if row[f] >= 0 {
					continue
				}
				turn := turns.IntN(levels[f]) // values without gain take turns
				for k := range levels[f] {
					v := (k + turn) % levels[f]
					g := gain(row, f, v)
					if g <= most {
						continue
					}
					row[f] = v
					if allowed(row) {
						bestF, bestV, most = f, v, g
					}
					row[f] = -1
				}
			}
			if bestF < 0 {
				break
			}
			row[bestF] = bestV
		}
		if slices.Contains(row, -1) {
			return false
		}
		for i := range row {
			for j := i + 1; j < len(row); j++ {
				delete(open, pair{i, row[i], j, row[j]})
			}
		}
		rows = append(rows, row)
		return true
	}
	for _, s := range seeds {
		row := empty()
		copy(row, s)
		complete(row)
	}
	for _, p := range order {
		if !open[p] {
			continue
		}
		row := empty()
		row[p.i], row[p.j] = p.a, p.b
		if !complete(row) {
			delete(open, p)
		}
	}
	return rows
}

// Distinct leaves out cases that repeat an earlier one.
func Distinct(list []Case) []Case {
	seen := map[string]bool{}
	out := list[:0]
	for _, c := range list {
		op, params := c.ID()
		if key := fmt.Sprint(op, params); !seen[key] {
			seen[key] = true
			out = append(out, c)
		}
	}
	return out
}
