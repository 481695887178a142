package metal

import (
	"fmt"
	"time"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/metal/mtl"
)

// Options are the settings of a Backend. The zero value has GEMM off: start from
// lever.Default().
type Options struct {
	Levers   lever.Levers
	Deadline time.Duration // of a submit; 0 is mtl.DefaultDeadline
	// Launched, where not nil, is called with the entry of each dispatch as it is
	// encoded.
	Launched func(*Entry)
	// Timed, where not nil, is called after each submit with what the device's timers
	// say of it.
	Timed func(mtl.Timing)
	// GEMMFrom is from how many outputs times tokens on a product of several tokens is
	// the gemm tier's, where levers leave it: 0 for what was measured on the device
	// (mtl.Limits.GEMMFrom), GEMMByShape for what fills the tier's tiles.
	GEMMFrom int
	// Pipelines are those to use; nil has New compile the project's own. They stay
	// the caller's.
	Pipelines *Pipelines
	// Poison makes memory count as unwritten when it is given out again, on a
	// device with a sanitizer.
	Poison bool
}

// Backend runs graph nodes on a Metal device.
type Backend struct {
	dev       mtl.Device
	o         Options
	limits    mtl.Limits
	pipelines map[*Entry]mtl.Pipeline
	compiled  *Pipelines // its own, nil where Options gave them

	cb    mtl.CommandBuffer // nil while nothing is encoded
	epoch uint64            // counts command buffers: the pending one's number while cb is not nil
	nodes int               // nodes encoded in cb
	err   error             // of a binding of the launch that is being put together
	bytes []byte            // inline parameters of that launch

	encoded   map[*graph.Node]*encoded // what nodes became when they were last encoded
	recording *encoded                 // of the node that is being encoded

	free     map[int][]idle // memory to recycle, by size class
	buffers  int            // made so far, for their labels
	live     map[*buffer]struct{}
	scratchs map[string]*buffer
	turns    map[rotation][]byte // of rope: frequencies as the kernels take them
	weights  registry
	closed   bool
	hung     error // of a submit that missed its deadline
}

var (
	_ graph.Backend        = (*Backend)(nil)
	_ graph.FusedSupporter = (*Backend)(nil)
	_ graph.WeightHolder   = (*Backend)(nil)
	_ graph.Mapper         = (*Backend)(nil)
)

// New makes a backend. Without pipelines among the options it compiles every one
// of Table; see Compile. The device stays the caller's.
func New(dev mtl.Device, o Options) (*Backend, error) {
	if o.Deadline < 0 {
		return nil, fmt.Errorf("metal: a deadline of %v: want more than 0, or 0 for %v", o.Deadline, mtl.DefaultDeadline)
	}
	if o.Deadline == 0 {
		o.Deadline = mtl.DefaultDeadline
	}
	if o.GEMMFrom == 0 {
		o.GEMMFrom = dev.Limits().GEMMFrom
	}
	b := &Backend{
		dev: dev, o: o, limits: dev.Limits(),
		free: map[int][]idle{}, live: map[*buffer]struct{}{}, scratchs: map[string]*buffer{},
	}
	b.weights.init()
	p := o.Pipelines
	if p == nil {
		var err error
		if p, err = Compile(dev, nil); err != nil {
			return nil, err
		}
		b.compiled = p
	}
	if p.dev != dev {
		return nil, fmt.Errorf("metal: the pipelines were compiled for %s, want those of %s", p.dev.Name(), dev.Name())
	}
	b.pipelines = p.of
	return b, nil
}

// Close drops what was encoded and not submitted, and releases everything that
// the backend made; the device stays open. It is idempotent.
func (b *Backend) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	b.discard()
	for h := range b.live {
		h.mem.Release()
		h.mem = nil
	}
	clear(b.live)
	clear(b.scratchs)
	b.encoded = nil
	for _, list := range b.free {
		for _, m := range list {
			m.mem.Release()
		}
	}
	clear(b.free)
	b.weights.release()
	if b.compiled != nil {
		b.compiled.Release()
	}
	return nil
}

// Name is "Metal".
func (b *Backend) Name() string { return "Metal" }

// Device is the device that it runs on.
func (b *Backend) Device() mtl.Device { return b.dev }

// SupportsOp: every op but Scale, Softmax, BatchMatMul and QkvBiasRopeStore, on
// F32 values; the KV ops and Attn on F32, F16 and Q8_0 caches; windows of any
// type.
func (b *Backend) SupportsOp(op graph.Op, t graph.DType) bool {
	switch op {
	case graph.GetRows, graph.Add, graph.Mul, graph.Silu, graph.SwiGLU, graph.RmsNorm, graph.QkNorm,
		graph.MatMul, graph.RoPE, graph.Permute, graph.FusedQKV, graph.FusedQkvNorm, graph.FusedFFN:
		return t == gguf.F32
	case graph.KvcacheStore, graph.KvcacheLoad, graph.Attn:
		return t == gguf.F32 || t == gguf.F16 || t == gguf.Q8_0
	case graph.Input:
		return t == gguf.F32 || t == gguf.I32
	case graph.View, graph.Reshape:
		return t.Known()
	}
	return false
}

// SupportsFused: SwiGLU, and the decode fusions that no lever turns off.
func (b *Backend) SupportsFused(op graph.Op) bool {
	switch op {
	case graph.SwiGLU:
		return true
	case graph.FusedQKV, graph.FusedQkvNorm:
		return !b.o.Levers.NoFuseQKV
	case graph.FusedFFN:
		return !b.o.Levers.NoFuseFFN
	}
	return false
}

// MaxFusedFF is the widest feed-forward layer that FusedFFN takes.
const MaxFusedFF = 16384

// SupportsFusedNode: FusedFFN up to MaxFusedFF channels, and the matrices of each
// decode fusion of a type that the single-token product takes.
func (b *Backend) SupportsFusedNode(n *graph.Node, kv graph.DType) bool {
	switch n.Op {
	case graph.SwiGLU:
		return true
	case graph.FusedFFN:
		if n.Shape[0] > MaxFusedFF {
			return false
		}
	case graph.FusedQKV, graph.FusedQkvNorm:
		if !b.SupportsOp(graph.KvcacheStore, kv) || b.checkFusedQKV(n, kv) != nil {
			return false
		}
	default:
		return false
	}
	return n.Weight != nil && Lookup(graph.MatMul.String(), n.Weight.Type.String(), "single") != nil
}

// ExecuteNode encodes one node and does not wait. An error names the node; one
// that wraps graph.ErrUnsupported is a guard's, and nothing was encoded.
func (b *Backend) ExecuteNode(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	if err := b.alive(); err != nil {
		return err
	}
	var err error
	if e := b.encoded[n]; e != nil && e.same(n, in, out, kv) {
		err = b.again(e)
	} else {
		b.record(n, in, out, kv)
		if err = b.execute(n, in, out, kv); err == nil {
			b.recorded(n)
		}
		b.recording = nil
	}
	if err != nil {
		return fmt.Errorf("metal: node %d %q (%s): %w", n.ID, n.Name, n.Op, err)
	}
	b.nodes++
	return nil
}

// inputs is the number of inputs of each op that runs here.
var inputs = map[graph.Op]int{
	graph.GetRows: 1, graph.Add: 2, graph.Mul: 2, graph.Silu: 1, graph.SwiGLU: 2, graph.RmsNorm: 1,
	graph.QkNorm: 1, graph.MatMul: 1, graph.RoPE: 2, graph.KvcacheStore: 2, graph.Attn: 4,
	graph.Permute: 1, graph.FusedQKV: 2, graph.FusedQkvNorm: 2, graph.FusedFFN: 1,
}

func (b *Backend) execute(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	// What an earlier node left behind that failed between its bindings and its launch.
	b.err, b.bytes = nil, b.bytes[:0]
	want, ok := inputs[n.Op]
	if !ok {
		return refuse(n, "this op has no kernel")
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
	case graph.MatMul:
		return b.matMul(n, in, out)
	case graph.Add, graph.Mul, graph.Silu, graph.SwiGLU:
		return b.elementwise(n, in, out)
	case graph.RmsNorm:
		return b.rmsNorm(n, in, out)
	case graph.QkNorm:
		return b.qkNorm(n, in, out)
	case graph.RoPE:
		return b.rope(n, in, out)
	case graph.KvcacheStore:
		return b.kvStore(n, in, out, kv)
	case graph.Attn:
		return b.attention(n, in, out, kv)
	case graph.Permute:
		return b.permute(n, in, out)
	case graph.FusedQKV, graph.FusedQkvNorm:
		return b.fusedQKV(n, in, out, kv)
	default: // FusedFFN
		return b.fusedFFN(n, in, out)
	}
}

// refuse is a guard's error: what of the node is not taken, with its numbers.
func refuse(n *graph.Node, format string, args ...any) error {
	return fmt.Errorf("%w: %s (force CPU with MINFER_DISABLE_MPS=1)", graph.ErrUnsupported, fmt.Sprintf(format, args...))
}
