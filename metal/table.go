package metal

import (
	"slices"
	"strings"
)

// Entry is one row of the dispatch table: a kernel, and when it is the one that
// runs.
type Entry struct {
	Op        string         // printed op name (graph.Op.String()) or "warm_up", "kv_dequantize"
	Type      string         // of the weight, or of the KV cache; "" where neither matters
	Variant   string         // what distinguishes the entries of one op and type: "gemm", "flash_decode_64", ...
	Kernel    string         // host name
	Constants map[string]any // function constants, nil for none
	When      string         // the condition in words
	Lever     string         // the levers that switch it, separated by ", "; "" for none
	Bound     Bound          // error bound of the op as computed with this kernel
}

// ID names the entry: "mul_mat q4_0 gemm".
func (e *Entry) ID() string {
	id := e.Op
	for _, s := range []string{e.Type, e.Variant} {
		if s != "" {
			id += " " + s
		}
	}
	return id
}

// Bound is how far a result may be from the float64 reference: at most
// min(1e-3 * max(1, RMS(reference)), (C*u + Staging) * sqrt(k) * RMS(terms) +
// Absolute), where u is 2^-24 and k and terms are the op's: how many products a
// result sums and what they are.
type Bound struct {
	C        float64 // roundings of float32 a term sees
	Staging  float64 // relative error of what is staged in half or of a fast function
	Absolute float64
	Why      string // where the numbers come from
}

// Table is every entry, in the order of listings. It is read-only.
var Table = slices.Concat(
	getRowsTable(),
	matMulTable(),
	normTable(),
	ropeTable(),
	elementwiseTable(),
	kvTable(),
	attnTable(),
	attnDecodeTable(),
	attnPrefillTable(),
	fusedTable(),
	warmUpTable(),
)

type entryKey struct{ op, typ, variant string }

var byKey = func() map[entryKey]*Entry {
	m := make(map[entryKey]*Entry, len(Table))
	for _, e := range Table {
		m[entryKey{e.Op, e.Type, e.Variant}] = e
	}
	return m
}()

// Lookup finds an entry, nil if the table has none such. typ may be in any case.
func Lookup(op, typ, variant string) *Entry {
	if e := byKey[entryKey{op, typ, variant}]; e != nil {
		return e
	}
	return byKey[entryKey{op, strings.ToLower(typ), variant}]
}
