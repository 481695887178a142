package metalcase

import (
	"fmt"
	"math"

	"minfer/metal"
)

// visible is how many tolerances a fault at an edge must move the result.
const visible = 10

// blind names the first edge that would go unseen under the bound, "" for none.
func (p *Problem) blind(bound metal.Bound) string {
	if len(p.Edges) == 0 {
		return "the case states no edge that would show a fault"
	}
	tolerances := make([][]float64, len(p.Results))
	for i := range p.Results {
		tolerances[i] = p.Results[i].tolerance(bound)
	}
	for i := 0; i < len(p.Edges); {
		e := p.Edges[i]
		share := 0.0
		for ; i < len(p.Edges) && p.Edges[i].same(e); i++ {
			a := p.Edges[i]
			t := tolerances[a.Result]
			share = math.Max(share, shareOf(a.By, t[min(a.At, len(t)-1)]))
		}
		if share < visible {
			return fmt.Sprintf("%v moves the result by %.3g tolerances: want at least %d", e, share, visible)
		}
	}
	return ""
}

func (e Edge) same(other Edge) bool { return e.What == other.What && e.N == other.N }

// shareOf is a distance in tolerances.
func shareOf(by, tolerance float64) float64 {
	by = math.Abs(by)
	switch {
	case math.IsNaN(by) || by == 0:
		return 0
	case tolerance == 0:
		return math.Inf(1)
	}
	return by / tolerance
}

// distinctEdges counts the faults, without their alternatives.
func (p *Problem) distinctEdges() int {
	n := 0
	for i, e := range p.Edges {
		if i == 0 || !e.same(p.Edges[i-1]) {
			n++
		}
	}
	return n
}
