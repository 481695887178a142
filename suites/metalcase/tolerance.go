package metalcase

import (
	"cmp"
	"fmt"
	"math"

	"minfer/harness"
	"minfer/metal"
	"minfer/refs"
)

// unit is u, half the distance from 1 to the next float32.
const unit = 1.0 / (1 << 24)

// most bounds every tolerance: 1e-3 for references of size 1 or less.
const most = 1e-3

// tolerance is how far value i of the result may be from the reference: one
// number, or one for each value.
func (r *Result) tolerance(b metal.Bound) []float64 {
	if r.Exact {
		return []float64{0}
	}
	limit := most * math.Max(1, refs.RMS(r.Want))
	one := func(terms float64) float64 {
		return math.Min(limit, (b.C*unit+b.Staging)*math.Sqrt(r.K)*terms+b.Absolute)
	}
	if len(r.Terms) == 1 && r.Rounding == nil && r.To == 0 {
		return []float64{one(r.Terms[0])}
	}
	all := make([]float64, len(r.Want))
	for i := range all {
		if r.To > 0 && (i < r.From || i >= r.To) {
			continue
		}
		all[i] = one(r.Terms[min(i, len(r.Terms)-1)])
		if r.Rounding != nil {
			all[i] += r.Rounding[i]
		}
	}
	return all
}

// definingBound is the bound of an op as it was computed: of the entries that
// were dispatched, the widest of those that name the op, or of all where none
// does.
func definingBound(op string, entries []*metal.Entry) metal.Bound {
	var found *metal.Entry
	for _, named := range []bool{true, false} {
		for _, e := range entries {
			if named && e.Op != op {
				continue
			}
			if found == nil || wider(e.Bound, found.Bound) > 0 {
				found = e
			}
		}
		if found != nil {
			return found.Bound
		}
	}
	return metal.Bound{}
}

func wider(a, b metal.Bound) int {
	return cmp.Or(cmp.Compare(a.C*unit+a.Staging, b.C*unit+b.Staging), cmp.Compare(a.Absolute, b.Absolute))
}

// judge compares the results with their references. The comparison reported is
// the first that fails, or that of the result nearest to its tolerance.
func (p *Problem) judge(o outcome) (harness.Result, error) {
	bound := definingBound(p.Node.Op.String(), o.entries)
	var report harness.Result
	worst := -1.0
	for i := range p.Results {
		r := &p.Results[i]
		cmp, err := harness.WithinEach(o.values[i], r.Want, r.tolerance(bound))
		if err != nil {
			return report, err
		}
		if share := float64(cmp.Share); share > worst {
			worst = share
			report = cmp.Result()
			if report.Outcome != harness.Pass {
				report.Reason = fmt.Sprintf("%s: %s (%s)", placeNames[r.Place], cmp, o.kernels())
			}
		}
	}
	return report, nil
}
