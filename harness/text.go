package harness

import (
	"slices"
	"strings"
)

// SecondsText is a time with its unit, as tables have it: "1.25 ms"; "" for none.
func SecondsText(s float64) string { return seconds(s) }

// RateText is the side's rate with a decimal prefix and its unit; "" for none.
func (m *Measured) RateText() string { return rateText(m) }

// MedianInterval is the median of samples with its bootstrap interval; lo and hi are
// the median where the samples are too few.
func MedianInterval(samples []float64, level float64) (mid, lo, hi float64) {
	if mid = median(samples); len(samples) < leastSamples {
		return mid, mid, mid
	}
	lo, hi = medianInterval(samples, level)
	return mid, min(lo, mid), max(hi, mid)
}

// Param gives a parameter's value, "" for none.
func (r *Record) Param(key string) string { return r.param(key) }

// SameText says whether two sides generated the same text: "yes", "no", or "" where
// that was not looked at.
func (r *Record) SameText() string { return sameText(r) }

// ParamText is the parameters as "key=value", but for the keys left out.
func (r *Record) ParamText(without ...string) string {
	var words []string
	for _, p := range r.Params {
		if !slices.Contains(without, p.Key) {
			words = append(words, p.Key+"="+p.Value)
		}
	}
	return strings.Join(words, " ")
}

// Newest gives the last record of each key by date, in order of the keys.
func Newest(records []Record) []Record {
	at := map[string]int{}
	var out []Record
	for _, r := range records {
		key := r.Key()
		if i, ok := at[key]; !ok {
			at[key] = len(out)
			out = append(out, r)
		} else if r.Provenance.Date >= out[i].Provenance.Date {
			out[i] = r
		}
	}
	slices.SortStableFunc(out, func(a, b Record) int { return Natural(a.Key(), b.Key()) })
	return out
}
