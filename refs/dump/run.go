package dump

import (
	"fmt"
	"math"
)

// Limits of a run: far above any run worth keeping in git, low enough that a
// broken file can't ask for much memory.
const (
	maxPositions = 1 << 16
	maxNodes     = 1 << 16
	maxDims      = 4
	maxString    = 1 << 12
	maxHeader    = 1 << 20
	maxBody      = 1 << 26
)

// A Header says what was run and on what. Every field is a fact of the
// recording; none is used to find a file.
type Header struct {
	Model       string  `json:"model"`        // the model's short name, "tiny-qwen2"
	ModelSHA256 string  `json:"model_sha256"` // of the file that llama.cpp loaded, 64 hex digits
	Weights     string  `json:"weights"`      // weight type or mix, "q4_K_M"
	KV          string  `json:"kv"`           // KV cache type, "f16"
	Level       string  `json:"level"`        // arithmetic level of docs/numerics.md that the variant computes, "avx2"
	Llama       string  `json:"llama"`        // libllama's version
	Glibc       string  `json:"glibc"`        // of the process that recorded: the bits of rope depend on libm
	Variant     string  `json:"variant"`      // libggml-cpu-<variant>.so
	Command     string  `json:"command"`      // what recorded it
	Prompt      []int32 `json:"prompt"`       // token ids
	Generated   []int32 `json:"generated"`    // greedy continuation
}

// Positions is the number of tokens that a run with this header evaluates: the
// prompt and every generated token but the last, whose logits nobody needs.
func (h *Header) Positions() int {
	return len(h.Prompt) + max(len(h.Generated)-1, 0)
}

// Token is the token evaluated at a position below Positions.
func (h *Header) Token(pos int) int32 {
	if pos < len(h.Prompt) {
		return h.Prompt[pos]
	}
	return h.Generated[pos-len(h.Prompt)]
}

// CellDim as a dimension of a Node stands for pos+1, the number of cells that
// the position attends to.
const CellDim = 0

// A Node is one compute node of the graph; every position has the same nodes
// in the same order.
type Node struct {
	Name string
	Op   string
	Occ  int
	Dims []int // innermost first; CellDim stands for pos+1
}

// Size is the number of elements of the node's value at a position.
func (n *Node) Size(pos int) int {
	size := 1
	for _, d := range n.Dims {
		if d == CellDim {
			d = pos + 1
		}
		size *= d
	}
	return size
}

type nodeName struct {
	name, op string
	occ      int
}

// A Run is one recorded run.
type Run struct {
	Header Header
	Nodes  []Node

	hashes    []uint64    // [position][node]
	values    [][]float32 // [position][node] for the first positions only
	positions int
	index     map[nodeName]int
}

// Positions is the number of recorded positions.
func (r *Run) Positions() int { return r.positions }

// ValuePositions is the number of positions, from 0, whose values are kept.
func (r *Run) ValuePositions() int {
	if len(r.Nodes) == 0 {
		return 0
	}
	return len(r.values) / len(r.Nodes)
}

// Node is the index in Nodes of the node that a key names.
func (r *Run) Node(k Key) (int, bool) {
	i, ok := r.index[nodeName{k.Name, k.Op, k.Occ}]
	return i, ok
}

// Key is the key of a node at a position.
func (r *Run) Key(pos, node int) Key {
	n := &r.Nodes[node]
	return Key{Pos: pos, Name: n.Name, Op: n.Op, Occ: n.Occ}
}

// Hash is the recorded hash of a node's value; pos and node must be in range.
func (r *Run) Hash(pos, node int) uint64 { return r.hashes[pos*len(r.Nodes)+node] }

// Values is the recorded value of a node, or nil where only the hash is kept.
func (r *Run) Values(pos, node int) []float32 {
	if i := pos*len(r.Nodes) + node; i < len(r.values) {
		return r.values[i]
	}
	return nil
}

// A MismatchError says how a value differs from llama.cpp's, recorded or live.
type MismatchError struct {
	Key   Key
	Index int // first element that differs, -1 where only the hash is known
	Got   float32
	Want  float32
	// Hashes of the whole value.
	GotHash, WantHash uint64
}

func (e *MismatchError) Error() string {
	if e.Index < 0 {
		return fmt.Sprintf("%v: hash %016x, llama.cpp has %016x", e.Key, e.GotHash, e.WantHash)
	}
	return fmt.Sprintf("%v: element %d is %v (%08x), llama.cpp has %v (%08x)", e.Key, e.Index,
		e.Got, math.Float32bits(e.Got), e.Want, math.Float32bits(e.Want))
}

// Check compares data, as bits, with the value: the live counterpart of
// [Run.Check], with the same errors.
func (v *Value) Check(data []float32) error {
	if len(data) != len(v.Data) {
		return fmt.Errorf("%v: %d elements, want %d", v.Key, len(data), len(v.Data))
	}
	for i, w := range v.Data {
		if math.Float32bits(data[i]) != math.Float32bits(w) {
			return &MismatchError{Key: v.Key, Index: i, Got: data[i], Want: w, GotHash: Hash(data), WantHash: Hash(v.Data)}
		}
	}
	return nil
}

// Check compares a value, as bits, with the recorded one. The error is a
// *MismatchError when the bits differ; another error says that the run has no
// such value or that its size is different.
func (r *Run) Check(k Key, data []float32) error {
	i, ok := r.Node(k)
	if !ok {
		return fmt.Errorf("%v: no such node in the recorded run", k)
	}
	if k.Pos < 0 || k.Pos >= r.positions {
		return fmt.Errorf("%v: the recorded run has positions 0 to %d", k, r.positions-1)
	}
	if want := r.Nodes[i].Size(k.Pos); len(data) != want {
		return fmt.Errorf("%v: %d elements, recorded %d", k, len(data), want)
	}
	got, want := Hash(data), r.Hash(k.Pos, i)
	if got == want {
		return nil
	}
	e := &MismatchError{Key: k, Index: -1, GotHash: got, WantHash: want}
	for j, w := range r.Values(k.Pos, i) {
		if math.Float32bits(data[j]) != math.Float32bits(w) {
			e.Index, e.Got, e.Want = j, data[j], w
			break
		}
	}
	return e
}
