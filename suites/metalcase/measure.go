package metalcase

import (
	"fmt"
	"slices"

	"minfer/engine/gguf"
	"minfer/harness"
	"minfer/metal"
)

// Bound is that of an op as it was computed by the entries that were dispatched.
func Bound(op string, entries []*metal.Entry) metal.Bound { return definingBound(op, entries) }

// Compare holds the stored bytes of each result, in order, against the reference
// under a bound, and gives the comparison of the result nearest to its tolerance.
func (p *Problem) Compare(bound metal.Bound, stored [][]byte) (*harness.Comparison, error) {
	if len(stored) != len(p.Results) {
		return nil, fmt.Errorf("%d values for %d results", len(stored), len(p.Results))
	}
	var worst *harness.Comparison
	for i := range p.Results {
		r := &p.Results[i]
		values, err := widen(r.Type, stored[i])
		if err != nil {
			return nil, err
		}
		c, err := harness.WithinEach(values, r.Want, r.tolerance(bound))
		if err != nil {
			return nil, err
		}
		if worst == nil || c.Share > worst.Share {
			worst = c
		}
	}
	return worst, nil
}

// Floats reads stored values as float32: of packed types their products with the
// scale.
func Floats(t gguf.Type, stored []byte) ([]float32, error) { return widen(t, stored) }

// Widest is the largest tolerance of the result's values under a bound.
func (r *Result) Widest(bound metal.Bound) float64 { return slices.Max(r.tolerance(bound)) }
