// Package metalcase is how one operator on the Metal path is verified: a
// [Case] draws the data of one shape, computes what must come out in float64
// (package refs), and lists the [Edge] values that prove it is not blind;
// [Cases] runs it on the environment's device and judges it. The suites ops,
// matmul, attention, kv and fusion list cases and share all of this.
//
// A case passes when every result is within the tolerance that the dispatch
// table states for the kernel that ran (docs/architecture.md: min(1e-3 max(1, RMS(ref)),
// (c u + staging) sqrt(k) RMS(terms) + absolute)), inputs, weights and guard
// zones are unchanged, an output that starts as NaN is wholly written, the
// sanitizer has no finding, and a second run with another number of threads
// gives the same bits. And it must be able to fail: leaving out, doubling or
// letting in one element, row, block or cell at the edges of tiles, KV chunks
// and the mask must move the expected result by ten tolerances at least, or the
// case is blind there and fails. The edges are computed on the reference, never
// on the implementation.
//
// Order of use: Cases; the last case of the list judges the [Coverage] of the
// dispatch table. Cases run one after another, as package harness has them.
package metalcase

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/harness"
	"minfer/metal"
	"minfer/suites"
)

// Case is one shape of one op.
type Case interface {
	// ID is the op's printed name and its parameters in their fixed order.
	ID() (op string, params []harness.Param)
	// Work is the number of multiply-adds, or of elements.
	Work() int64
	// Setting is the levers that choose the kernel.
	Setting() Setting
	// Refusal is what the backend must say when it refuses the case, a part of its
	// error; "" for a case that it must compute.
	Refusal() string
	// Build draws the data and computes the reference.
	Build(r *rand.Rand) (*Problem, error)
}

// Setting is levers that are not at their default, as "MINFER_GEMM=0".
type Setting []string

// Levers gives the values of all levers.
func (s Setting) Levers() (lever.Levers, error) {
	l := lever.Default()
	for _, entry := range s {
		name, value, _ := strings.Cut(entry, "=")
		v, ok := lever.Find(name)
		if !ok {
			return l, fmt.Errorf("unknown lever %q", entry)
		}
		var err error
		if l, err = v.With(l, value); err != nil {
			return l, err
		}
	}
	return l, nil
}

// Params is the setting in a case's identity: none for the defaults.
func (s Setting) Params() []harness.Param {
	if len(s) == 0 {
		return nil
	}
	names := make([]string, len(s))
	for i, entry := range s {
		names[i] = strings.TrimPrefix(entry, "MINFER_")
		if strings.HasPrefix(names[i], "NO_") {
			names[i] = strings.TrimSuffix(names[i], "=1")
		}
	}
	return []harness.Param{harness.P("levers", strings.Join(names, ","))}
}

// Problem is one node with its data, what must come out, and what would show.
type Problem struct {
	Node  *graph.Node
	In    [][]byte // contents of the inputs; those of KV loads are nil
	Cache *Cache   // of the node's layer, nil for none
	// InPlace is the number, from 1, of the input whose memory the output is to
	// have; 0 for none.
	InPlace int
	// Results are what the node must give; at least one.
	Results []Result
	// Edges prove that the case can fail.
	Edges []Edge
}

// Cache is the KV cache of a node's layer.
type Cache struct {
	graph.KV        // type, capacity and widths; run makes the buffers
	K, V     []byte // contents before, [capacity][width]
}

// Place is where a result lies.
type Place int

// The places: the node's output, and the regions of the layer's cache.
const (
	Output Place = iota
	Keys
	Values
)

var placeNames = [...]string{"output", "K cache", "V cache"}

// Result is one value that a node gives, whole: of a cache, the region.
type Result struct {
	Place Place
	Type  gguf.Type
	Want  []float64
	// K and Terms are the op's in the tolerance: how many products a value sums, and
	// the RMS of those products: one number for all values, or one for each.
	K     float64
	Terms []float64
	// Rounding is what the type that a value is stored as, or the steps after a product,
	// may add, for each value; nil for nothing.
	Rounding []float64
	// Exact results must be equal whatever the kernel's bound.
	Exact bool
	// From and To are the window of the values that the node computes; the rest must
	// be equal. To 0 is all of them.
	From, To int
}

// Edge is one fault at an edge of the reference: By is how far it moves value At
// of result Result. Neighbours in the list with the same What and N are
// alternatives, of which the one that moves most counts.
type Edge struct {
	What   string // "leaving out element", "doubling cell", ...
	N      int
	Result int
	At     int
	By     float64
}

// String names the fault.
func (e Edge) String() string { return fmt.Sprintf("%s %d", e.What, e.N) }

// Cases makes the harness's cases of a suite on a Metal device and, last, the one
// that judges the coverage of the dispatch-table entries of the ops.
func Cases(env *suites.Env, suite string, ops []string, list []Case) []harness.Case {
	tally := &coverage{suite: suite, ops: ops, total: len(list), passed: map[*metal.Entry]bool{}}
	cases := make([]harness.Case, 0, len(list)+1)
	for _, c := range list {
		op, params := c.ID()
		id := harness.ID{Suite: suite, Op: op, Params: params}
		cases = append(cases, harness.Case{ID: id, Work: max(c.Work(), 1), Run: func(ctx context.Context) (res harness.Result, err error) {
			var entries []*metal.Entry
			if d, ok := c.(direct); ok {
				res, entries, err = d.run(ctx, env)
			} else {
				res, entries, err = verify(env, c, id)
			}
			tally.count(res, entries)
			return res, err
		}})
	}
	if len(ops) == 0 {
		return cases
	}
	return append(cases, tally.judge())
}

// draws is how often data are drawn before a case counts as blind: by chance the
// terms of one block may cancel each other.
const draws = 4

// verify judges one case. The entries are those that were dispatched.
func verify(env *suites.Env, c Case, id harness.ID) (harness.Result, []*metal.Entry, error) {
	levers, err := c.Setting().Levers()
	if err != nil {
		return harness.Result{}, nil, err
	}
	var res harness.Result
	for draw := range draws {
		p, err := c.Build(random(env.Seed, id, draw))
		if err != nil {
			return res, nil, err
		}
		first, err := runOn(env, 1, levers, p)
		if err != nil {
			return res, nil, err
		}
		if first.refusal != "" || first.fault != "" || c.Refusal() != "" {
			return judgeRefusal(c, first), nil, nil
		}
		res, err = p.judge(first)
		if err != nil || res.Outcome != harness.Pass {
			return res, nil, err
		}
		second, err := runOn(env, 3, levers, p)
		switch {
		case err != nil:
			return res, nil, err
		case second.fault != "" || second.refusal != "":
			return harness.Failed("with 3 threads: %s%s", second.fault, second.refusal), nil, nil
		}
		for i, r := range p.Results {
			again, err := harness.Bits(second.values[i], first.values[i])
			if err != nil {
				return res, nil, err
			}
			if !again.OK() {
				return harness.Failed("%s: 3 threads give other bits than 1: %v", placeNames[r.Place], again), nil, nil
			}
		}
		blind := p.blind(definingBound(p.Node.Op.String(), first.entries))
		if blind == "" {
			res.Counts = []harness.Count{{Name: "edges shown", N: int64(p.distinctEdges())}}
			return res, first.entries, nil
		}
		res = harness.Failed("blind: %s", blind)
	}
	return res, nil, nil
}

// direct is a case that is not a node.
type direct interface {
	run(ctx context.Context, env *suites.Env) (harness.Result, []*metal.Entry, error)
}

// judgeRefusal is the outcome of a case that was refused, failed, or should have
// been refused.
func judgeRefusal(c Case, o outcome) harness.Result {
	want := c.Refusal()
	switch {
	case o.fault != "":
		return harness.Failed("%s", o.fault)
	case o.refusal == "":
		return harness.Failed("the backend computed what it must refuse: want an error with %q", want)
	case want == "":
		return harness.Failed("refused: %s", o.refusal)
	case !strings.Contains(o.refusal, want):
		return harness.Failed("refused with %q: want %q in it", o.refusal, want)
	}
	return harness.Refused("%s", o.refusal)
}

// random is the generator of one draw of a case: it depends on the seed, the case
// and the draw alone.
func random(seed uint64, id harness.ID, draw int) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(id.String()))
	return rand.New(rand.NewPCG(seed+uint64(draw)<<48, h.Sum64()))
}
