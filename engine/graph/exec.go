package graph

import (
	"errors"
	"io"
)

// ExecOptions are the settings of an Executor. The zero value is the normal
// run: fusion on, buffers reused, nothing observed.
type ExecOptions struct {
	// Trace receives, for each plan built, one line a split
	// ("split 0: CPU nodes 0-440") and a census of ops by backend.
	Trace io.Writer
	// Profile receives, after the first run of each plan, the 20 nodes that took
	// most time in ExecuteNode, and after every later run one line with the time
	// spent in nodes, copies and waiting.
	Profile io.Writer
	// Tap sees every intermediate value; see Executor.SetTap.
	Tap Tap
	// ForceOps puts an op (of the built graph, before fusion) on the backend of
	// that name instead of the first that supports it. Forcing one of
	// KvcacheStore, KvcacheLoad and Attn forces all three.
	ForceOps map[Op]string
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
	plan     *Plan
	stats    Stats
}

// Stats counts what an Executor has done.
type Stats struct {
	Builds int // plans built
	Reuses int // calls of Plan that were answered by the plan at hand
	Runs   int // forward passes completed
}

// A Plan is one graph made ready to run: assigned, fused, with its buffers.
type Plan struct {
	Graph      *Graph // after fusion
	Assignment *Assignment
	Allocation *Allocation
}

// NewExecutor makes an executor over the backends, highest priority first. Each
// must have its own name.
func NewExecutor(backends []Backend, o ExecOptions) *Executor {
	return &Executor{backends: backends, opt: o}
}

var errSkeleton = errors.New("graph: not built")

// Plan returns the plan for p: the one at hand while p is equal to its Params,
// else a new one of the graph that build makes; the old one is closed.
func (e *Executor) Plan(build func() (*Graph, error), p Params) (*Plan, error) {
	return nil, errSkeleton
}

// Prepare validates, assigns, fuses and allocates g, without a look at the plan
// at hand. The caller closes the result.
func (e *Executor) Prepare(g *Graph) (*Plan, error) { return nil, errSkeleton }

// SetTap sets, or with nil ends, the observation of intermediate values, also
// in the backends that implement Tapper.
func (e *Executor) SetTap(t Tap) {}

// Stats returns the counts so far.
func (e *Executor) Stats() Stats { return e.stats }

// Close frees the plan at hand. It is idempotent.
func (e *Executor) Close() {}

// Run executes the plan: in holds the bytes of every Input by node name, kv the
// cache (nil for a graph without KV nodes). It returns the output in a slice
// of the caller's own.
func (p *Plan) Run(in map[string][]byte, kv *KVCache) ([]float32, error) { return nil, errSkeleton }

// RunInto is Run into dst, of exactly Graph.Output.Shape.Elements() values.
// Without tap, trace and profile it allocates nothing.
func (p *Plan) RunInto(dst []float32, in map[string][]byte, kv *KVCache) error { return errSkeleton }

// Close frees the plan's buffers. It is idempotent.
func (p *Plan) Close() {}
