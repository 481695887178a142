package harness

import (
	"fmt"
	"math"
)

// Comparison is the distance of a value from its reference.
type Comparison struct {
	N         int   `json:"n"`         // elements compared
	Differing int   `json:"differing"` // elements whose bits differ
	Index     int   `json:"index"`     // the first differing element for bits, the worst for a tolerance; -1 for none
	Got       Float `json:"got"`       // the element there
	Want      Float `json:"want"`      // its reference
	ULP       int64 `json:"ulp"`       // distance there, in units of the last place of float32
	MaxAbs    Float `json:"max_abs"`
	MaxRel    Float `json:"max_rel"` // over elements whose reference isn't 0
	NMSE      Float `json:"nmse"`    // squared error over the reference's energy
	Cosine    Float `json:"cosine"`
	Tolerance Float `json:"tolerance"` // 0 where the contract is bits; where each element has its own, that at Index
	// Share is the error at Index in tolerances, where each element has its own.
	Share Float `json:"share,omitempty"`
	// Each: every element has its own tolerance, and Index is the one with the
	// largest share of it.
	Each bool `json:"each,omitempty"`
}

// Bits compares bit for bit. Two NaNs of different payload differ.
func Bits(got, want []float32) (*Comparison, error) {
	if len(got) != len(want) {
		return nil, fmt.Errorf("compare: %d values, want %d", len(got), len(want))
	}
	c := &Comparison{N: len(got), Index: -1}
	for i := range got {
		if math.Float32bits(got[i]) == math.Float32bits(want[i]) {
			continue
		}
		c.Differing++
		if c.Index < 0 {
			c.at(i, got[i], float64(want[i]))
			c.ULP = ULP(got[i], want[i])
		}
	}
	if c.Differing > 0 {
		c.energy(len(got), func(i int) (float64, float64) { return float64(got[i]), float64(want[i]) })
	} else {
		c.Cosine = 1
	}
	return c, nil
}

// Within compares with a float64 reference and an absolute tolerance. Any NaN
// that the reference doesn't have is outside every tolerance.
func Within(got []float32, want []float64, tolerance float64) (*Comparison, error) {
	if len(got) != len(want) {
		return nil, fmt.Errorf("compare: %d values, want %d", len(got), len(want))
	}
	c := &Comparison{N: len(got), Index: -1, Tolerance: Float(tolerance)}
	worst := -1.0
	for i := range got {
		d := math.Abs(float64(got[i]) - want[i])
		if same(float64(got[i]), want[i]) {
			d = 0
		} else if math.IsNaN(d) {
			d = math.Inf(1)
		}
		if math.Float32bits(got[i]) != math.Float32bits(float32(want[i])) {
			c.Differing++
		}
		if d > worst {
			worst = d
			c.at(i, got[i], want[i])
			c.ULP = ULP(got[i], float32(want[i]))
		}
	}
	c.energy(len(got), func(i int) (float64, float64) { return float64(got[i]), want[i] })
	return c, nil
}

// WithinEach compares with a float64 reference where each element has its own
// absolute tolerance; of one tolerance, it is that of all. An element whose
// tolerance is 0 must equal its reference rounded to float32. The element that has
// come nearest to its tolerance, or gone furthest past it, is the one reported. A
// NaN that the reference doesn't have is outside every tolerance.
func WithinEach(got []float32, want, tolerance []float64) (*Comparison, error) {
	if len(got) != len(want) || len(tolerance) != 1 && len(tolerance) != len(want) {
		return nil, fmt.Errorf("compare: %d values and %d tolerances, want %d", len(got), len(tolerance), len(want))
	}
	c := &Comparison{N: len(got), Index: -1, Each: true}
	worst := -1.0
	for i := range got {
		t := tolerance[min(i, len(tolerance)-1)]
		if math.Float32bits(got[i]) != math.Float32bits(float32(want[i])) {
			c.Differing++
		}
		d := math.Abs(float64(got[i]) - want[i])
		switch {
		case same(float64(got[i]), want[i]) || t == 0 && got[i] == float32(want[i]):
			d = 0
		case math.IsNaN(d):
			d = math.Inf(1)
		case t == 0:
			d = math.Inf(1)
		default:
			d /= t
		}
		if d > worst {
			worst = d
			c.at(i, got[i], want[i])
			c.ULP = ULP(got[i], float32(want[i]))
			c.Tolerance, c.Share = Float(t), Float(d)
		}
	}
	c.energy(len(got), func(i int) (float64, float64) { return float64(got[i]), want[i] })
	return c, nil
}

// OK reports whether the comparison meets its contract.
func (c *Comparison) OK() bool {
	if c.Each {
		return c.Share <= 1
	}
	if c.Tolerance == 0 {
		return c.Differing == 0
	}
	return c.MaxAbs <= c.Tolerance
}

// String is one line: the element that decides, both values and the distance.
func (c *Comparison) String() string {
	switch {
	case c.Each:
		return fmt.Sprintf("%d values, worst at [%d]: got %v, want %v, error %.3g of tolerance %.3g, NMSE %.3g",
			c.N, c.Index, float32(c.Got), float64(c.Want), math.Abs(float64(c.Got-c.Want)), c.Tolerance, c.NMSE)
	case c.Tolerance == 0 && c.Differing == 0:
		return fmt.Sprintf("%d values, all bits equal", c.N)
	case c.Tolerance == 0:
		return fmt.Sprintf("%d of %d values differ, first at [%d]: got %v (%#08x), want %v (%#08x), %d ulp",
			c.Differing, c.N, c.Index, float32(c.Got), math.Float32bits(float32(c.Got)),
			float32(c.Want), math.Float32bits(float32(c.Want)), c.ULP)
	default:
		return fmt.Sprintf("%d values, worst at [%d]: got %v, want %v, error %.3g of tolerance %.3g, NMSE %.3g",
			c.N, c.Index, float32(c.Got), float64(c.Want), c.MaxAbs, c.Tolerance, c.NMSE)
	}
}

// Result turns the comparison into a case's result.
func (c *Comparison) Result() Result {
	r := Result{Outcome: Pass, Comparison: c}
	if !c.OK() {
		r.Outcome, r.Reason = Fail, c.String()
	}
	return r
}

func (c *Comparison) at(i int, got float32, want float64) {
	c.Index, c.Got, c.Want = i, Float(got), Float(want)
}

// energy fills the norms over n pairs.
func (c *Comparison) energy(n int, pair func(int) (got, want float64)) {
	var errSq, refSq, gotSq, dot float64
	for i := range n {
		g, w := pair(i)
		if same(g, w) {
			if !math.IsInf(w, 0) && !math.IsNaN(w) {
				refSq += w * w
				gotSq += w * w
				dot += w * w
			}
			continue
		}
		d := math.Abs(g - w)
		if math.IsNaN(d) {
			d = math.Inf(1)
		}
		c.MaxAbs = max(c.MaxAbs, Float(d))
		if w != 0 {
			c.MaxRel = max(c.MaxRel, Float(d/math.Abs(w)))
		}
		errSq += d * d
		refSq += w * w
		gotSq += g * g
		dot += g * w
	}
	switch {
	case errSq == 0:
		c.NMSE = 0
	case refSq == 0:
		c.NMSE = Float(math.Inf(1))
	default:
		c.NMSE = Float(errSq / refSq)
	}
	if refSq > 0 && gotSq > 0 {
		c.Cosine = Float(dot / math.Sqrt(refSq*gotSq))
	}
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// ULP is the number of float32 values between a and b, 0 when their bits are
// equal, 1 for neighbours and for +0 and -0; math.MaxInt64 when exactly one is
// NaN or the payloads differ.
func ULP(a, b float32) int64 {
	if math.Float32bits(a) == math.Float32bits(b) {
		return 0
	}
	if a != a || b != b {
		return math.MaxInt64
	}
	return max(order(a)-order(b), order(b)-order(a))
}

// order maps floats to integers so that neighbours differ by one; -0 lies just
// below +0.
func order(x float32) int64 {
	bits := int64(math.Float32bits(x))
	if bits&(1<<31) != 0 {
		return (1<<31 - 1) - bits // -0 -> -1, then downwards
	}
	return bits
}
