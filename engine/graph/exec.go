package graph

import (
	"fmt"
	"io"
)

// ExecOptions are the settings of an Executor. The zero value is the normal
// run: fusion on, buffers reused, nothing observed.
type ExecOptions struct {
	// Trace receives, for each plan built, one line a split
	// ("split 0: CPU nodes 0-440") and a census of ops by backend.
	Trace io.Writer
	// Profile receives, after the first run of each plan, the 20 nodes that took
	// most time in ExecuteNode, and after every run one line with the time spent
	// in nodes, in copies and waiting. On an asynchronous backend the time of a
	// node is that of its encoding.
	Profile io.Writer
	// Tap sees every intermediate value; see Executor.SetTap.
	Tap Tap
	// ForceOps puts an op (of the built graph, before fusion) on the backend of
	// that name instead of the first that supports it. Forcing one of
	// KvcacheStore, KvcacheLoad and Attn forces all three.
	ForceOps map[Op]string
	// TraceDir, where not empty, is a directory into which every run writes the
	// values of its nodes; see TraceRun. Buffers are kept apart as with NoReuse and
	// read at the end of each split, so that no node waits for its own.
	TraceDir string
	// NoFuse leaves the graph as built.
	NoFuse bool
	// NoReuse gives every value a buffer of its own: slow, but no lifetime can be
	// wrong. Tests compare against it.
	NoReuse bool
}

// An Executor turns graphs into plans over its backends and keeps the plan of
// the last Params for reuse. It is for one session and one goroutine at a time.
type Executor struct {
	backends []Backend
	opt      ExecOptions
	tap      Tap
	plan     *Plan
	params   Params // of plan
	stats    Stats
	traced   int // runs that wrote into TraceDir
}

// Stats counts what an Executor has done.
type Stats struct {
	Builds int // plans built
	Reuses int // calls of Plan that were answered by the plan at hand
	Runs   int // forward passes completed
}

// NewExecutor makes an executor over the backends, highest priority first. Each
// must have its own name.
func NewExecutor(backends []Backend, o ExecOptions) *Executor {
	e := &Executor{backends: backends, opt: o}
	if o.Tap != nil {
		e.SetTap(o.Tap)
	}
	return e
}

// Plan returns the plan for p: the one at hand while p equals its Params, else
// a new one of the graph that build makes; the plan at hand is closed first,
// with its buffers.
func (e *Executor) Plan(build func() (*Graph, error), p Params) (*Plan, error) {
	if e.plan != nil && e.params == p {
		e.stats.Reuses++
		return e.plan, nil
	}
	e.Close()
	g, err := build()
	if err != nil {
		return nil, err
	}
	if g.Params != p {
		return nil, fmt.Errorf("graph: built with parameters %+v, want %+v", g.Params, p)
	}
	plan, err := e.Prepare(g)
	if err != nil {
		return nil, err
	}
	e.plan, e.params = plan, p
	return plan, nil
}

// Prepare validates, assigns, fuses and allocates g, without a look at the plan
// at hand. g stays unchanged. The caller closes the result.
func (e *Executor) Prepare(g *Graph) (*Plan, error) {
	if err := Validate(g); err != nil {
		return nil, err
	}
	backends, err := e.taking(g)
	if err != nil {
		return nil, err
	}
	a, err := Assign(g, backends, e.opt.ForceOps)
	if err != nil {
		return nil, err
	}
	if !e.opt.NoFuse {
		g, a = Fuse(g, a)
	}
	al, err := Allocate(g, a, e.opt.NoReuse || e.opt.TraceDir != "")
	if err != nil {
		return nil, err
	}
	p, err := newPlan(e, g, a, al)
	if err != nil {
		return nil, err
	}
	e.stats.Builds++
	if e.opt.Trace != nil {
		writeTrace(e.opt.Trace, g, a)
	}
	return p, nil
}

// taking are the backends that take part in g.
func (e *Executor) taking(g *Graph) ([]Backend, error) {
	if g.Params.NTokens == 0 || g.Params.GPU {
		return e.backends, nil
	}
	rest := Ungated(e.backends)
	if len(rest) == 0 && len(e.backends) > 0 {
		return nil, fmt.Errorf("graph: the parameters say gpu = false, and no other backend than %s is given", backendNames(e.backends))
	}
	return rest, nil
}

// SetTap sets, or with nil ends, the observation of intermediate values, by the
// executor and by the backends that implement Tapper. The tap sees each node's
// own value after the node, with Part "": all but those of Input and of
// KvcacheLoad, which hold no new data. For KvcacheStore it sees the rows just
// stored, in the order of the batch, as the region holds them (converted to
// float32, which is exact for f32 and f16), and those rows too, as Parts "k" and
// "v", of FusedQKV and FusedQkvNorm. A tap changes no bits: it only makes
// the executor wait after each node.
func (e *Executor) SetTap(t Tap) {
	e.tap = t
	for _, b := range e.backends {
		if tb, ok := b.(Tapper); ok {
			tb.SetTap(t)
		}
	}
}

// Stats returns the counts so far.
func (e *Executor) Stats() Stats { return e.stats }

// Close frees the plan at hand. It is idempotent, and the executor can be used
// again.
func (e *Executor) Close() {
	if e.plan != nil {
		e.plan.Close()
		e.plan = nil
	}
}
