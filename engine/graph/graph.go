// Package graph is the graph of one forward pass and the machinery that runs it
// over one or more backends.
//
// Data flows one way. A builder (engine/model) emits nodes in topological order
// into a [Graph]; [Validate] checks it; [Assign] gives each node a [Backend] by
// priority, where a refusal is not an error but makes a split; [Fuse] merges
// nodes where the backend of all of them can; [Allocate] plans buffers by
// liveness; a [Plan] walks the splits, copies values across at a backend change
// and returns the output. An [Executor] does all of it and reuses the plan while
// its [Params] compare equal. A [KVCache] outlives the plans.
//
// The package computes nothing and knows no kernel: arithmetic is the business
// of the backends, cpu and metal, which it does not import.
//
// An invariant that does not hold is an error that names the node, the tensor
// and the numbers. Nothing falls back silently, and no node is handed to
// another backend mid-run.
//
// Graphs and weights may be shared for reading; executors, plans, caches and
// backends belong to one session and one goroutine at a time.
package graph

import "minfer/engine/gguf"

// DType is the element type of a value: F32, I32, F16, Q8_0, ...
type DType = gguf.Type

// Shape is a value's extent, innermost first as in GGUF: Shape[0] is the row
// length (channels), Shape[1] the rows (tokens). Unused dimensions are 1.
type Shape [4]int

// Elements is the product of all dimensions.
func (s Shape) Elements() int { return s[0] * s[1] * s[2] * s[3] }

// Rows is the number of rows of length Shape[0].
func (s Shape) Rows() int { return s[1] * s[2] * s[3] }

// Vec is the shape of n elements.
func Vec(n int) Shape { return Shape{n, 1, 1, 1} }

// Mat is the shape of rows of cols elements each.
func Mat(cols, rows int) Shape { return Shape{cols, rows, 1, 1} }

// A Weight is a model tensor that nodes read: bytes of the mapped file under
// its GGUF name, or a concatenation made at load. Backends find their own copy
// of it by pointer or by name.
type Weight struct {
	Name  string
	Type  DType
	Shape Shape // MatMul: Shape[0] = in_dim, Shape[1] = out_dim
	Data  []byte
	// Concat is the concatenation that holds this weight's rows from Row on (of a
	// vector: its elements), nil where there is none. The decode fusions read it.
	Concat *Weight
	Row    int
}

// A Node is one operation and its single output value.
//
//	op            In                       Weight    Bias    output
//	Input         -                        -         -       I32 [n] (F32 of any shape in graphs of single ops)
//	GetRows       ids I32[n]               table     -       F32 [d, n]
//	Add, Mul      a, b (same shape)        -         -       as a
//	Silu          x                        -         -       as x
//	SwiGLU        gate, up                 -         -       as gate: silu(gate)*up
//	RmsNorm       x                        [d] or -  -       as x: norm(x)*weight
//	QkNorm        x [hd*n_head, n]         [hd]      -       as x: RmsNorm of each head's row
//	MatMul        x [in_dim, n]            [in,out]  [out]|- F32 [out_dim, n]
//	RoPE          x [hd*n_head, n], pos    factors|- -       as x
//	KvcacheStore  x [width, n], pos        -         -       KV type [width, n]; no data of its own, it writes the region of its side
//	KvcacheLoad   store                    -         -       KV type [width, n_kv], aliases the region
//	Attn          q, k load, v load, pos   -         -       F32 [hd_v*n_head, n]
//	Scale         x                        -         -       x * Attr.Scale
//	Softmax       x                        -         -       over rows, x * Attr.Scale first
//	BatchMatMul   a [k,m,b], b [k,n,b]     -         -       F32 [m, n, b]: ggml's mul_mat of two activations
//	View          x                        -         -       rows from Attr.Offset on, aliases x
//	Reshape       x                        -         -       same bytes, other Shape, aliases x
//	Permute       x                        -         -       dimension i goes to Attr.Perm[i], copied
//	FusedQKV      x [in, 1], pos           q|k|v     q|k|v|- F32 [hd*n_head, 1]: q rotated; k rotated and v go to the layer's cache
//	FusedQkvNorm  as FusedQKV              q|k|v     q|k|v|- the same with QkNorm (weights in Norm) before the rotation of q and k
//	FusedFFN      x [in, 1]                gate|up   -       F32 [n_ff, 1]: silu(gate)*up
//
// The fused nodes are made by Fuse alone, for one token, where one backend has
// all that they replace. A KvcacheLoad may then follow a FusedQKV instead of a
// store. Their weights are concatenations of rows, in the order given.
//
// ids and pos are Inputs. At a run, ids are below the table's rows, positions of
// one run are distinct, below the cache's capacity and below the NKV of each Attn.
// Attention is causal: the cell index is the position, and row i of q sees the
// cells 0..pos[i].
type Node struct {
	ID     int // index in Graph.Nodes; inputs have smaller ones
	Op     Op
	Name   string // as llama.cpp's eval callback names it: "Qcur-3", "result_output"
	Layer  int    // -1 outside the layers
	Type   DType
	Shape  Shape
	In     []*Node
	Weight *Weight
	Bias   *Weight
	// Norm and Factors are for FusedQKV and FusedQkvNorm only: [2*hd], the norm of
	// q's heads and then that of k's; the frequency factors of the rotation or nil.
	Norm    *Weight
	Factors *Weight
	Attr    Attr
}

// Attr holds the parameters of a node that are not tensors. Which fields an op
// reads is its own affair; the rest stay zero.
type Attr struct {
	Eps     float32 // RmsNorm, QkNorm
	Scale   float32 // Scale, Softmax, Attn (1/sqrt(head_dim))
	Offset  int     // View: first row
	Perm    [4]int  // Permute
	HeadDim int     // QkNorm, RoPE, Attn
	NHead   int     // RoPE (heads in x), Attn (query heads)
	NHeadKV int     // Attn
	NKV     int     // KvcacheLoad, Attn: cells in the window, at least max(pos)+1
	KV      KVSide  // KvcacheStore, KvcacheLoad
	Rope    Rope    // RoPE
}

// KVSide says which half of a layer's KV cache a node touches.
type KVSide uint8

// The two halves of a layer's cache.
const (
	KVKey KVSide = iota
	KVValue
)

// RopeMode is how RoPE pairs the channels of a head.
type RopeMode uint8

// RopeNorm pairs neighbours (2k, 2k+1), as llama does; RopeNeox pairs k with
// k + n_dims/2, as Qwen does.
const (
	RopeNorm RopeMode = iota
	RopeNeox
)

// Rope holds the parameters of a rotation, with ggml's names and meanings.
type Rope struct {
	Mode       RopeMode
	NDims      int // rotated channels of each head
	FreqBase   float32
	FreqScale  float32 // 1/factor for linear scaling; 1 for none
	ExtFactor  float32 // YaRN mix; 0 for none
	AttnFactor float32
	BetaFast   float32
	BetaSlow   float32
	NCtxOrig   int
}

// Params identifies a graph. A plan is reused while its Params compare equal.
type Params struct {
	NTokens int   // rows of the forward pass
	NOut    int   // tail rows whose logits are wanted, 1..NTokens
	NKV     int   // window of the KV cache, cells
	KVType  DType // F32, F16 or Q8_0
	// GPU: the weights gate is open. Without it, backends that are a WeightHolder
	// take no part. (Graphs of single ops have no Params, NTokens 0: all take part.)
	GPU bool
	// Decode fusions that Fuse may make, only with NTokens == 1 and GPU.
	FuseQKV bool
	FuseFFN bool
}

// A Graph is one forward pass: nodes in topological order.
type Graph struct {
	Params Params
	Nodes  []*Node
	Output *Node // the logits, F32 [n_vocab, NOut]
}
