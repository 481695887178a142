// Package cpu is the CPU backend: every node of the graph that llama.cpp's CPU
// path has, with the bits of its AVX2 build (docs/numerics.md), on a pool of
// threads.
//
// The arithmetic is package kernel's; this package checks shapes, types and
// index ranges, cuts the work into chunks for the threads and owns the memory.
// A result's bits depend neither on the number of threads nor on how many
// tokens a batch holds: every output row is one kernel call's, or a window of
// whole lanes of one, whoever makes it. KV caches are F32 or F16; q8_0 is
// refused, and so are the fused decode ops, except SwiGLU.
//
// Use: [New], then as a graph.Backend, then [Backend.Close]. A Backend works
// synchronously, is host-visible (graph.Mapper) and shows the values that its
// nodes merge (graph.Tapper). It is for one goroutine at a time. An ExecuteNode
// allocates nothing once its scratch memory has grown to the largest node, and with
// one token once the order of the products is known.
package cpu

import (
	"fmt"
	"runtime"

	"minfer/cpu/kernel"
	"minfer/engine/gguf"
	"minfer/engine/graph"
)

// Options are the settings of a Backend. The zero value is the best level on
// all CPUs.
type Options struct {
	Threads int // 0: one for each CPU that the process may use
	Level   Level
}

// maxThreads bounds Options.Threads: more is a mistake.
const maxThreads = 1024

// Backend runs graph nodes on the CPU.
type Backend struct {
	level Level
	table *kernel.Table
	pool  *pool
	free  map[int][][]byte // memory to recycle, by size class
	tap   graph.Tap
	order successors // of the weights of a token

	// The state of one node each, kept so that a node allocates nothing.
	ints    []int32
	scratch []float32
	rows    getRows
	elem    elementwise
	norm    normalise
	mm      matMul
	bmm     batchMatMul
	rope    rotation
	kv      store
	attn    attention
	smax    softMax
}

var (
	_ graph.Backend = (*Backend)(nil)
	_ graph.Mapper  = (*Backend)(nil)
	_ graph.Tapper  = (*Backend)(nil)

	_ graph.ZeroAllocator = (*Backend)(nil)
)

// New makes a backend. A level that this machine cannot run is an error that
// lists those that it can.
func New(o Options) (*Backend, error) {
	if o.Threads < 0 || o.Threads > maxThreads {
		return nil, fmt.Errorf("cpu: %d threads: want 1 to %d, or 0 for one per CPU", o.Threads, maxThreads)
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	table, level, err := o.Level.table()
	if err != nil {
		return nil, err
	}
	spin := spinLimit
	if o.Threads > runtime.GOMAXPROCS(0) {
		spin = 0 // it would keep a thread with work from running
	}
	b := &Backend{level: level, table: table, pool: newPool(o.Threads, spin, table.Prefetch), free: map[int][][]byte{}}
	b.rows.init()
	b.elem.init(table)
	b.norm.init(table)
	b.mm.init(table, o.Threads)
	b.bmm.init(table)
	b.rope.init(table)
	b.kv.init(table)
	b.attn.init(table, o.Threads)
	b.smax.init(table)
	return b, nil
}

// Close ends the threads and drops the recycled memory. It is idempotent.
func (b *Backend) Close() error {
	b.pool.close()
	clear(b.free)
	b.order = successors{}
	return nil
}

// Name is "CPU".
func (b *Backend) Name() string { return "CPU" }

// Level is the level that runs: never Auto.
func (b *Backend) Level() Level { return b.level }

// Kernels names the kernels that run: the level, and where Auto chose AVX-512 kernels
// that have another level's bits, both.
func (b *Backend) Kernels() string { return b.table.Name }

// Threads is the number of threads.
func (b *Backend) Threads() int { return b.pool.threads }

// SetTap sets, or with nil ends, the view of merged values: "norm" of RmsNorm and
// QkNorm before the weight, "mul_mat" of MatMul before the bias, "kq" and
// "kq_soft_max" of Attn, one call a row of the batch with Dims [cells seen,
// n_head].
func (b *Backend) SetTap(t graph.Tap) { b.tap = t }

// Synchronize has nothing to wait for.
func (b *Backend) Synchronize() error { return nil }

// SupportsOp: every op but the fused decode ones, on F32 values; the KV ops and
// Attn on F32 and F16 caches; windows of any type.
func (b *Backend) SupportsOp(op graph.Op, t graph.DType) bool {
	switch op {
	case graph.GetRows, graph.Add, graph.Mul, graph.Silu, graph.SwiGLU, graph.RmsNorm, graph.QkNorm,
		graph.MatMul, graph.RoPE, graph.Scale, graph.Softmax, graph.BatchMatMul, graph.Permute:
		return t == gguf.F32
	case graph.KvcacheStore, graph.KvcacheLoad, graph.Attn:
		return t == gguf.F32 || t == gguf.F16
	case graph.Input:
		return t == gguf.F32 || t == gguf.I32
	case graph.View, graph.Reshape:
		return t.Known()
	}
	return false
}

// SupportsFused: SwiGLU only.
func (b *Backend) SupportsFused(op graph.Op) bool { return op == graph.SwiGLU }

// ExecuteNode runs one node to its end. An error names the node; one that wraps
// graph.ErrUnsupported is a refusal of a type or a combination.
func (b *Backend) ExecuteNode(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	if err := b.execute(n, in, out, kv); err != nil {
		return fmt.Errorf("cpu: node %d %q (%s): %w", n.ID, n.Name, n.Op, err)
	}
	return nil
}

// inputs is the number of inputs of each op that runs here.
var inputs = map[graph.Op]int{
	graph.GetRows: 1, graph.Add: 2, graph.Mul: 2, graph.Silu: 1, graph.SwiGLU: 2, graph.RmsNorm: 1,
	graph.QkNorm: 1, graph.MatMul: 1, graph.RoPE: 2, graph.KvcacheStore: 2, graph.KvcacheLoad: 1,
	graph.Attn: 4, graph.Scale: 1, graph.Softmax: 1, graph.BatchMatMul: 2, graph.View: 1,
	graph.Reshape: 1, graph.Permute: 1,
}

func (b *Backend) execute(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	want, ok := inputs[n.Op]
	if !ok {
		return fmt.Errorf("%w op", graph.ErrUnsupported)
	}
	if len(in) != want || len(n.In) != want {
		return fmt.Errorf("%d operands for %d inputs, want %d", len(in), len(n.In), want)
	}
	for _, d := range n.Shape {
		if d < 0 {
			return fmt.Errorf("shape %v, want no negative dimension", n.Shape)
		}
	}
	switch n.Op {
	case graph.GetRows:
		return b.getRows(n, in, out)
	case graph.Add, graph.Mul, graph.Silu, graph.SwiGLU, graph.Scale:
		return b.elementwise(n, in, out)
	case graph.RmsNorm, graph.QkNorm:
		return b.normalise(n, in, out)
	case graph.MatMul:
		return b.matMul(n, in, out)
	case graph.RoPE:
		return b.rotate(n, in, out)
	case graph.KvcacheStore:
		return b.store(n, in, kv)
	case graph.KvcacheLoad:
		return b.load(n, kv)
	case graph.Attn:
		return b.attend(n, in, out, kv)
	case graph.Softmax:
		return b.softMax(n, in, out)
	case graph.BatchMatMul:
		return b.batchMatMul(n, in, out)
	case graph.Permute:
		return b.permute(n, in, out)
	default: // View, Reshape
		return b.alias(n, in, out)
	}
}

// unsupported wraps graph.ErrUnsupported.
func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", graph.ErrUnsupported, fmt.Sprintf(format, args...))
}
