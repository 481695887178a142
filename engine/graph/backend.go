package graph

import "errors"

// Buffer is memory of one backend. Only the backend that made it can read it.
type Buffer interface {
	Size() int // bytes
}

// An Operand is a value as a backend sees it: a window of a buffer. Off+Len is
// within the buffer; Len is exactly the value's bytes.
type Operand struct {
	Buf      Buffer
	Off, Len int
}

// KV is one layer's cache on one backend. Layout: [position][channel]; channel
// is head_kv*head_dim + i. Regions live as long as the session and start as
// zeros.
type KV struct {
	Type     DType
	Capacity int // positions
	KWidth   int // channels of a K row: n_head_kv * head_dim
	VWidth   int // channels of a V row
	K, V     Buffer
}

// Backend is the seam between the graph and what runs it. A backend may work
// asynchronously: results are defined after Synchronize. It is used by one
// session at a time.
type Backend interface {
	// Name is printed: "CPU", "Metal".
	Name() string

	// SupportsOp says whether the backend runs the op on values of the type: the
	// node's output type; for KvcacheStore, KvcacheLoad and Attn the cache's
	// type. The weight's type is checked by ExecuteNode. It is asked for View,
	// Reshape and KvcacheLoad too, although they are windows that the executor
	// makes itself and never passes to ExecuteNode; it is not asked for Input.
	SupportsOp(op Op, t DType) bool
	// SupportsFused says whether Fuse may create the fused op for this backend; see
	// FusedSupporter.
	SupportsFused(op Op) bool

	// AllocBuffer returns at least size bytes of unspecified content, possibly
	// recycled. FreeBuffer is idempotent.
	AllocBuffer(size int) (Buffer, error)
	FreeBuffer(b Buffer)
	// AllocFresh is AllocBuffer that never recycles within an execute: staging
	// copies of one split must not overwrite those that pending work still reads.
	AllocFresh(size int) (Buffer, error)

	// ExecuteNode runs, or enqueues, one node. in matches n.In; kv is the layer's
	// cache for KvcacheStore, Attn, FusedQKV and FusedQkvNorm, nil otherwise. For
	// KvcacheStore out is the whole region of its side; the k and v of Attn are
	// windows of the first NKV cells. FusedQKV and FusedQkvNorm write the row of
	// their position in both regions of kv, besides out. It must not change its inputs, but for an output that is an input:
	// Allocate gives Add, Mul, Silu, SwiGLU, Scale and RoPE (see InPlace) the very
	// window of one of their F32 inputs where nothing else reads it. No other
	// overlap occurs. The backend must not keep in past the call (the slice is
	// reused), but may keep n, out and the buffers until Synchronize.
	ExecuteNode(n *Node, in []Operand, out Operand, kv *KV) error

	// ReadHost and WriteHost copy a window of a buffer. They need every pending
	// operation on it to be synchronized; a backend reports an error otherwise.
	ReadHost(b Buffer, off int, dst []byte) error
	WriteHost(b Buffer, off int, src []byte) error

	// Synchronize waits until all that was enqueued is done, and reports its
	// failure.
	Synchronize() error
}

// FusedSupporter is implemented by backends whose fused kernels have limits that
// the op alone does not tell: a width, a type of weights, a head size. Fuse asks
// it about each decode fusion (FusedQKV, FusedQkvNorm, FusedFFN), after
// SupportsFused; where the answer is no, the nodes stay single.
type FusedSupporter interface {
	// SupportsFusedNode says whether the backend runs the node that Fuse would
	// make. It is not in a graph yet: op, weights, attributes and shape are those of
	// the later node, IDs and inputs are of the graph before. kv is the type of the
	// layer's cache for FusedQKV and FusedQkvNorm.
	SupportsFusedNode(n *Node, kv DType) bool
}

// Mapper is implemented by backends whose buffers the host can address.
type Mapper interface {
	// Map returns the buffer's bytes, valid while it is not freed.
	Map(b Buffer) ([]byte, error)
}

// WeightHolder is implemented by backends that read weights from memory of their
// own and not from Weight.Data. Each weight is registered once, before any graph
// that reads it exists. The weights gate (see Gate) asks Holds.
type WeightHolder interface {
	// HoldPart announces memory that weights lie in: a mapped file part, which
	// stays where it is until the backend is closed. Weights inside of an announced
	// part need no copy.
	HoldPart(data []byte) error
	// HoldWeight registers a weight under its name. Registering the same bytes
	// again does nothing; other bytes under a known name are an error.
	HoldWeight(w *Weight) error
	// Holds says whether the weight is registered: the same name and bytes.
	Holds(w *Weight) bool
}

// A TapValue is one intermediate value shown to a Tap.
type TapValue struct {
	Node *Node // of the plan's graph, after fusion
	// Part is "" for the node's own output and otherwise names a value that the
	// node merges, by llama.cpp's op: "mul_mat" before a bias, "norm" before a
	// weight, "kq", "kq_soft_max", "kqv" inside attention.
	Part string
	Row  int       // row of the node (token in the batch) that Data belongs to, or -1 for all rows
	Data []float32 // valid only during the call
	Dims Shape     // of Data
}

// Tap observes intermediate values. It is called from one goroutine at a time.
type Tap func(TapValue)

// Tapper is implemented by backends that can show the values that their nodes
// merge. The executor itself shows every node's output. A nil tap ends it.
type Tapper interface {
	SetTap(Tap)
}

// ErrUnsupported is wrapped by the error of an ExecuteNode that refuses a
// combination by contract (a weight type, a head size), as distinct from one
// that failed.
var ErrUnsupported = errors.New("unsupported")
