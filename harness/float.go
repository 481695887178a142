package harness

import (
	"encoding/json"
	"fmt"
	"math"
)

// Float is a float64 that survives JSON when it isn't finite: NaN and the
// infinities are the strings "NaN", "+Inf" and "-Inf".
type Float float64

// MarshalJSON writes a number, or a string for what JSON has no number for.
func (f Float) MarshalJSON() ([]byte, error) {
	v := float64(f)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return json.Marshal(nonFinite(v))
	}
	return json.Marshal(v)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (f *Float) UnmarshalJSON(b []byte) error {
	var v float64
	if json.Unmarshal(b, &v) == nil {
		*f = Float(v)
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%s is not a number: want a number, \"NaN\", \"+Inf\" or \"-Inf\"", b)
	}
	switch s {
	case "NaN":
		*f = Float(math.NaN())
	case "+Inf":
		*f = Float(math.Inf(1))
	case "-Inf":
		*f = Float(math.Inf(-1))
	default:
		return fmt.Errorf("%q is not a number: want a number, \"NaN\", \"+Inf\" or \"-Inf\"", s)
	}
	return nil
}

func nonFinite(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case v > 0:
		return "+Inf"
	default:
		return "-Inf"
	}
}
