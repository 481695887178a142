package llamacpp

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"minfer/engine/gguf"
	"minfer/refs/dump"
)

// Record runs a prompt and n greedy tokens, one token at a time, and hands out
// every compute node of every position in order, under the canonical keys of
// refs/dump. It is the one source of recorded dumps and of live comparison. The
// result is the greedy continuation; its last token is not evaluated. o.Tap is
// not used; NCtx 0 is room for exactly this run.
//
// A node that has no canonical key is an error: nothing is left out in silence.
func (m *Model) Record(o ContextOptions, prompt []int32, n int, emit func(dump.Value) error) ([]int32, error) {
	if o.UBatch > 1 || o.FlashAttn || m.o.Repack {
		return nil, fmt.Errorf("recording with micro-batch %d, flash attention %v, repacking %v: want 1, false, false (docs/numerics.md)", o.UBatch, o.FlashAttn, m.o.Repack)
	}
	if o.NCtx == 0 {
		o.NCtx = len(prompt) + n
	}
	c := &collector{emit: emit}
	ctx, err := m.newContext(o, &tap{fn: c.node})
	if err != nil {
		return nil, err
	}
	defer ctx.Close()
	return ctx.greedy(prompt, n, func(tokens []int32) error {
		for _, t := range tokens {
			c.begin(ctx.pos)
			if err := ctx.decode([]int32{t}, true); err != nil {
				return err
			}
		}
		return nil
	})
}

// NewBuilder starts a recorded run of a model with what the library knows of
// its header; the caller fills in the model, the weight type and the command.
func (l *Lib) NewBuilder(h dump.Header, keep int) *dump.Builder {
	h.Level, h.Llama, h.Glibc, h.Variant = l.Level(), l.Version(), l.Glibc(), l.Variant()
	return dump.NewBuilder(h, keep)
}

// A collector turns the nodes of one position into canonical values.
type collector struct {
	emit  func(dump.Value) error
	pos   int
	seen  map[[2]string]int // occurrences of (name, op) so far
	layer string            // of the last kqv_out
	gets  int               // unnamed GET_ROWS so far
}

func (c *collector) begin(pos int) {
	c.pos, c.layer, c.gets = pos, "", 0
	c.seen = make(map[[2]string]int)
}

// node is the tap.
func (c *collector) node(t *tensor, op string) error {
	name, err := c.name(t.cname(), op)
	if err != nil {
		return err
	}
	id := [2]string{name, op}
	v := dump.Value{Key: dump.Key{Pos: c.pos, Name: name, Op: op, Occ: c.seen[id]}}
	c.seen[id]++
	switch {
	case op == "SET_ROWS":
		v.Data, err = storedRows(t)
		v.Dims = []int{len(v.Data)}
	case strings.HasPrefix(name, "kq-") || strings.HasPrefix(name, "kq_soft_max-"):
		v.Data, v.Dims, err = t.values(c.pos + 1)
	default:
		v.Data, v.Dims, err = t.values(int(t.ne[0]))
	}
	if err != nil {
		return fmt.Errorf("%v: %w", v.Key, err)
	}
	return c.emit(v)
}

// name gives the canonical name of a node (dump.Key).
func (c *collector) name(name, op string) (string, error) {
	if layer, ok := strings.CutPrefix(name, "kqv_out-"); ok {
		c.layer = layer
	}
	if !strings.HasPrefix(name, "node_") {
		name, _, _ = strings.Cut(name, " (")
		return name, nil
	}
	// An unnamed node: what it is follows from its place after kqv_out.
	switch {
	case c.layer == "":
	case op == "MUL_MAT":
		return "attn_out-" + c.layer, nil
	case op == "GET_ROWS" && c.gets == 0:
		c.gets++
		return "attn_out-" + c.layer, nil
	case op == "GET_ROWS" && c.gets == 1:
		c.gets++
		return "layer_in-" + c.layer, nil
	}
	return "", fmt.Errorf("position %d: node %s, op %s: no canonical key for it", c.pos, name, op)
}

// values copies the first n elements of every row, widened to float32, with the
// dimensions of 1 after the first left out.
func (t *tensor) values(n int) ([]float32, []int, error) {
	if n < 1 || int64(n) > t.ne[0] {
		return nil, nil, fmt.Errorf("%d cells of a row of %d", n, t.ne[0])
	}
	data, err := t.bytes()
	if err != nil {
		return nil, nil, err
	}
	x := float32s(gguf.Type(t.typ), data)
	if x == nil {
		return nil, nil, fmt.Errorf("type %v: want f32 or f16", gguf.Type(t.typ))
	}
	if d := int(t.ne[0]); n < d {
		kept := make([]float32, 0, len(x)/d*n)
		for ; len(x) > 0; x = x[d:] {
			kept = append(kept, x[:n]...)
		}
		x = kept
	}
	dims := []int{n}
	for _, d := range t.ne[1:] {
		if d > 1 {
			dims = append(dims, int(d))
		}
	}
	return x, dims, nil
}

// storedRows gives the rows that a SET_ROWS node has just written into its
// destination, read back from there: one row of K, or one element per channel
// of the transposed V, in channel order.
func storedRows(t *tensor) ([]float32, error) {
	ids, err := rowIDs(t.src[1])
	if err != nil {
		return nil, err
	}
	typ := gguf.Type(t.typ)
	if typ != gguf.F32 && typ != gguf.F16 {
		return nil, fmt.Errorf("a cache of type %v: want f32 or f16", typ)
	}
	d := int(t.ne[0])
	if t.ne[2] != 1 || t.ne[3] != 1 || t.nb[0] != uint64(typ.BlockBytes()) {
		return nil, fmt.Errorf("a cache of dims %v with strides %v: want rows", t.ne, t.nb)
	}
	out := make([]byte, 0, len(ids)*d*typ.BlockBytes())
	for _, id := range ids {
		if id < 0 || id >= t.ne[1] {
			return nil, fmt.Errorf("row %d of %d", id, t.ne[1])
		}
		row := unsafe.Add(t.data, uintptr(id)*uintptr(t.nb[1]))
		out = append(out, unsafe.Slice((*byte)(row), d*typ.BlockBytes())...)
	}
	runtime.KeepAlive(t)
	return float32s(typ, out), nil
}

// rowIDs are the indices of a SET_ROWS node.
func rowIDs(t *tensor) ([]int64, error) {
	if t == nil || !slices.Contains([]gguf.Type{i64, gguf.I32}, gguf.Type(t.typ)) {
		return nil, fmt.Errorf("no row indices of type i64 or i32")
	}
	data, err := t.bytes()
	if err != nil {
		return nil, err
	}
	var ids []int64
	if gguf.Type(t.typ) == i64 {
		for ; len(data) >= 8; data = data[8:] {
			ids = append(ids, int64(binary.LittleEndian.Uint64(data)))
		}
		return ids, nil
	}
	for ; len(data) >= 4; data = data[4:] {
		ids = append(ids, int64(int32(binary.LittleEndian.Uint32(data))))
	}
	return ids, nil
}
