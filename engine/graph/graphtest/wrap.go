package graphtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"minfer/engine/gguf"
	"minfer/engine/graph"
)

// PoisonBits is what fills memory that nobody has written: a quiet NaN as F32,
// an id far out of range as I32.
const PoisonBits uint32 = 0x7fc0dead

// unwrittenBits fill an output before its node runs. They differ from
// PoisonBits, which arithmetic on poisoned inputs hands on to its result.
const unwrittenBits uint32 = 0x7fc0fade

// Options say how a wrapped backend behaves.
type Options struct {
	Name   string     // what Name returns; the inner backend's name if empty
	Refuse []graph.Op // SupportsOp and SupportsFused say no
	// Async enqueues nodes and runs them at Synchronize, on a goroutine: whoever
	// reads a result too early finds old bytes.
	Async bool
	// Opaque makes a host read or write of a buffer with pending work an error
	// that names the buffer. Without it the access synchronizes first.
	Opaque bool
	// Poison fills new, recycled and freed buffers with PoisonBits. It also fills
	// the output of a node with another NaN before the node runs, and an F32 element
	// that still holds it afterwards is an error: the node has not written it.
	Poison bool
	// Fail, if set, is asked before a node runs (in an Async backend, at
	// Synchronize); an error is the node's.
	Fail func(*graph.Node) error
}

// Wrapped is a backend around another: the memory is the inner one's, but
// handles, recycling and order are its own, and it is never a graph.Mapper. On
// every node it checks that the inputs, and the bytes around the output, are
// unchanged afterwards and that input and output overlap only as Allocate may
// have decided; the first fault is the error of the node, or of Synchronize.
type Wrapped struct {
	inner graph.Backend
	opt   Options
	seed  maphash.Seed

	buffers int // handles given out, also the next ID
	live    int
	frees   int // of handles already free
	free    []*wrapBuffer
	queue   []func() error
}

// guard is the extra bytes behind each buffer that no node may touch.
const guard = 64

// wrapBuffer is one handle. Recycling gives the inner buffer a new handle, so
// that the old one stays known as freed.
type wrapBuffer struct {
	owner   *Wrapped
	id      int
	size    int
	inner   graph.Buffer
	freed   bool
	pending int // queued nodes that read or write it
}

// Size is the buffer's bytes.
func (b *wrapBuffer) Size() int { return b.size }

func (b *wrapBuffer) String() string {
	return fmt.Sprintf("%s buffer %d (%d bytes)", b.owner.Name(), b.id, b.size)
}

// Wrap makes the wrapper. Close it after the last plan.
func Wrap(inner graph.Backend, o Options) *Wrapped {
	if o.Name == "" {
		o.Name = inner.Name()
	}
	return &Wrapped{inner: inner, opt: o, seed: maphash.MakeSeed()}
}

// Name implements graph.Backend.
func (w *Wrapped) Name() string { return w.opt.Name }

// SupportsOp implements graph.Backend.
func (w *Wrapped) SupportsOp(op graph.Op, t graph.DType) bool {
	return !slices.Contains(w.opt.Refuse, op) && w.inner.SupportsOp(op, t)
}

// SupportsFused implements graph.Backend.
func (w *Wrapped) SupportsFused(op graph.Op) bool {
	return !slices.Contains(w.opt.Refuse, op) && w.inner.SupportsFused(op)
}

// SupportsFusedNode implements graph.FusedSupporter: what the inner backend says.
func (w *Wrapped) SupportsFusedNode(n *graph.Node, kv graph.DType) bool {
	s, ok := w.inner.(graph.FusedSupporter)
	return !ok || s.SupportsFusedNode(n, kv)
}

// SetTap implements graph.Tapper; it does nothing if the inner backend has none.
func (w *Wrapped) SetTap(t graph.Tap) {
	if tb, ok := w.inner.(graph.Tapper); ok {
		tb.SetTap(t)
	}
}

// Live is the number of buffers not freed, DoubleFrees how often one was freed
// again, Recycled how many buffers wait for reuse. After everything is closed
// the first two should be 0.
func (w *Wrapped) Live() int { return w.live }

// DoubleFrees: see Live. FreeBuffer is idempotent, so this is no error in itself.
func (w *Wrapped) DoubleFrees() int { return w.frees }

// Recycled: see Live.
func (w *Wrapped) Recycled() int { return len(w.free) }

// Close gives the recycled memory back to the inner backend.
func (w *Wrapped) Close() {
	for _, b := range w.free {
		w.inner.FreeBuffer(b.inner)
	}
	w.free = nil
}

// AllocBuffer implements graph.Backend: the buffer freed last that has the size,
// if there is one.
func (w *Wrapped) AllocBuffer(size int) (graph.Buffer, error) {
	for i := len(w.free) - 1; i >= 0; i-- {
		if old := w.free[i]; old.size == size {
			w.free = slices.Delete(w.free, i, i+1)
			return w.handle(old.inner, size)
		}
	}
	return w.AllocFresh(size)
}

// AllocFresh implements graph.Backend.
func (w *Wrapped) AllocFresh(size int) (graph.Buffer, error) {
	inner, err := w.inner.AllocBuffer(size + guard)
	if err != nil {
		return nil, err
	}
	return w.handle(inner, size)
}

func (w *Wrapped) handle(inner graph.Buffer, size int) (graph.Buffer, error) {
	b := &wrapBuffer{owner: w, id: w.buffers, size: size, inner: inner}
	w.buffers++
	w.live++
	if w.opt.Poison {
		if err := w.fill(b, 0, size+guard, PoisonBits); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// FreeBuffer implements graph.Backend. A free under pending work is the error of
// the next Synchronize.
func (w *Wrapped) FreeBuffer(b graph.Buffer) {
	wb, ok := b.(*wrapBuffer)
	if !ok || wb.owner != w {
		w.queue = append(w.queue, func() error { return fmt.Errorf("%s: free of a foreign buffer (%T)", w.Name(), b) })
		return
	}
	if wb.freed {
		w.frees++
		return
	}
	if wb.pending > 0 {
		err := fmt.Errorf("%v: freed with %d pending nodes", wb, wb.pending)
		w.queue = append(w.queue, func() error { return err })
		return
	}
	wb.freed = true
	w.live--
	w.free = append(w.free, wb)
	if w.opt.Poison {
		if err := w.fill(wb, 0, wb.size, PoisonBits); err != nil {
			w.queue = append(w.queue, func() error { return err })
		}
	}
}

// fill writes a pattern over a window.
func (w *Wrapped) fill(b *wrapBuffer, off, n int, bits uint32) error {
	return w.inner.WriteHost(b.inner, off, bytes.Repeat(word(bits), n/4+1)[:n])
}

func word(bits uint32) []byte { return binary.LittleEndian.AppendUint32(nil, bits) }

// open checks a window of one of this backend's buffers.
func (w *Wrapped) open(b graph.Buffer, off, n int) (*wrapBuffer, error) {
	wb, ok := b.(*wrapBuffer)
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: a buffer of another backend (%T)", w.Name(), b)
	case wb.owner != w:
		return nil, fmt.Errorf("%s: %v is of another backend", w.Name(), wb)
	case wb.freed:
		return nil, fmt.Errorf("%v: used after free", wb)
	case off < 0 || n < 0 || off > wb.size || n > wb.size-off:
		return nil, fmt.Errorf("%v: window %d+%d is outside", wb, off, n)
	}
	return wb, nil
}

// hostAccess is open for a host read or write.
func (w *Wrapped) hostAccess(verb string, b graph.Buffer, off, n int) (*wrapBuffer, error) {
	wb, err := w.open(b, off, n)
	if err != nil || wb.pending == 0 {
		return wb, err
	}
	if w.opt.Opaque {
		return nil, fmt.Errorf("%v: host %s with %d pending nodes, want Synchronize before", wb, verb, wb.pending)
	}
	return wb, w.Synchronize()
}

// ReadHost implements graph.Backend.
func (w *Wrapped) ReadHost(b graph.Buffer, off int, dst []byte) error {
	wb, err := w.hostAccess("read", b, off, len(dst))
	if err != nil {
		return err
	}
	return w.inner.ReadHost(wb.inner, off, dst)
}

// WriteHost implements graph.Backend.
func (w *Wrapped) WriteHost(b graph.Buffer, off int, src []byte) error {
	wb, err := w.hostAccess("write", b, off, len(src))
	if err != nil {
		return err
	}
	return w.inner.WriteHost(wb.inner, off, src)
}

// Synchronize implements graph.Backend: it runs the queue, all of it, and
// reports the first error.
func (w *Wrapped) Synchronize() error {
	queue := w.queue
	w.queue = nil
	done := make(chan error)
	go func() {
		var first error
		for _, f := range queue {
			if err := f(); first == nil {
				first = err
			}
		}
		done <- first
	}()
	return errors.Join(<-done, w.inner.Synchronize())
}

// ExecuteNode implements graph.Backend.
func (w *Wrapped) ExecuteNode(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	if slices.Contains(w.opt.Refuse, n.Op) {
		return fmt.Errorf("%s: op %s was refused and yet came", w.Name(), n.Op)
	}
	c := &call{w: w, node: n, in: slices.Clone(in), out: out}
	var err error
	for i, o := range in {
		b, oerr := w.open(o.Buf, o.Off, o.Len)
		if oerr != nil {
			return fmt.Errorf("input %d: %w", i, oerr)
		}
		c.bufs = append(c.bufs, b)
		c.in[i].Buf = b.inner
	}
	if c.dst, err = w.open(out.Buf, out.Off, out.Len); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	c.out.Buf = c.dst.inner
	if kv != nil {
		k, err := w.open(kv.K, 0, 0)
		if err != nil {
			return fmt.Errorf("k region: %w", err)
		}
		v, err := w.open(kv.V, 0, 0)
		if err != nil {
			return fmt.Errorf("v region: %w", err)
		}
		inner := *kv
		inner.K, inner.V = k.inner, v.inner
		c.kv = &inner
		c.bufs = append(c.bufs, k, v)
	}
	if err := c.checkOverlap(in, out); err != nil {
		return err
	}
	if !w.opt.Async {
		return c.run()
	}
	for _, b := range append(c.bufs, c.dst) {
		b.pending++
	}
	w.queue = append(w.queue, func() error {
		for _, b := range append(c.bufs, c.dst) {
			b.pending--
		}
		return c.run()
	})
	return nil
}

// call is one node on the way to the inner backend.
type call struct {
	w    *Wrapped
	node *graph.Node
	in   []graph.Operand // of inner buffers
	out  graph.Operand
	kv   *graph.KV
	bufs []*wrapBuffer // inputs and regions
	dst  *wrapBuffer
}

// inPlace says whether input i is the output's very window.
func (c *call) inPlace(i int) bool {
	return c.in[i] == c.out && slices.Contains(graph.InPlace(c.node.Op), i)
}

func (c *call) checkOverlap(in []graph.Operand, out graph.Operand) error {
	for i, o := range in {
		if o.Buf != out.Buf || o.Off >= out.Off+out.Len || out.Off >= o.Off+o.Len || c.inPlace(i) || c.node.Op == graph.KvcacheStore {
			continue
		}
		return fmt.Errorf("%v: %q (%s): input %d at %d+%d overlaps the output at %d+%d", c.dst, c.node.Name, c.node.Op, i, o.Off, o.Len, out.Off, out.Len)
	}
	return nil
}

// run executes the node and looks at what it has touched.
func (c *call) run() error {
	w := c.w
	if w.opt.Fail != nil {
		if err := w.opt.Fail(c.node); err != nil {
			return err
		}
	}
	fault := func(format string, args ...any) error {
		return fmt.Errorf("%s: %q (%s): %s", w.Name(), c.node.Name, c.node.Op, fmt.Sprintf(format, args...))
	}
	aliased := c.node.Op == graph.KvcacheStore
	for i := range c.in {
		aliased = aliased || c.inPlace(i)
	}
	if w.opt.Poison && !aliased {
		if err := w.fill(c.dst, c.out.Off, c.out.Len, unwrittenBits); err != nil {
			return err
		}
	}
	rows, err := c.fusedRows()
	if err != nil {
		return err
	}
	if w.opt.Poison {
		for _, r := range rows {
			if err := w.inner.WriteHost(r.Buf, r.Off, bytes.Repeat(word(unwrittenBits), r.Len/4+1)[:r.Len]); err != nil {
				return err
			}
		}
	}
	before, err := c.sums(rows)
	if err != nil {
		return err
	}
	if err := w.inner.ExecuteNode(c.node, c.in, c.out, c.kv); err != nil {
		return err
	}
	if err := w.inner.Synchronize(); err != nil {
		return err
	}
	after, err := c.sums(rows)
	if err != nil {
		return err
	}
	for i := range before {
		switch {
		case before[i] == after[i]:
		case i < len(c.in):
			return fault("changed its input %d", i)
		case i > len(c.in):
			return fault("wrote outside its row of side %d of the cache", i-len(c.in)-1)
		default:
			return fault("wrote outside its output, bytes %d+%d of %v", c.out.Off, c.out.Len, c.dst)
		}
	}
	if !w.opt.Poison {
		return nil
	}
	if !aliased && c.node.Type == gguf.F32 {
		i, err := c.unwritten(c.out)
		if err != nil {
			return err
		}
		if i >= 0 {
			return fault("did not write element %d", i)
		}
	}
	for side, r := range rows {
		if c.kv.Type != gguf.F32 {
			break
		}
		i, err := c.unwritten(r)
		if err != nil {
			return err
		}
		if i >= 0 {
			return fault("did not write element %d of its row of side %d of the cache", i, side)
		}
	}
	return nil
}

// unwritten finds the first element that still is unwrittenBits, -1 for none.
func (c *call) unwritten(o graph.Operand) (int, error) {
	got := make([]byte, o.Len)
	if err := c.w.inner.ReadHost(o.Buf, o.Off, got); err != nil {
		return -1, err
	}
	want := word(unwrittenBits)
	for i := 0; i+4 <= len(got); i += 4 {
		if bytes.Equal(got[i:i+4], want) {
			return i / 4, nil
		}
	}
	return -1, nil
}

// fusedRows are the rows of both regions that a FusedQKV or FusedQkvNorm writes;
// none for other nodes.
func (c *call) fusedRows() ([]graph.Operand, error) {
	if c.node.Op != graph.FusedQKV && c.node.Op != graph.FusedQkvNorm {
		return nil, nil
	}
	var pos [4]byte
	if err := c.w.inner.ReadHost(c.in[1].Buf, c.in[1].Off, pos[:]); err != nil {
		return nil, err
	}
	at := int(int32(binary.LittleEndian.Uint32(pos[:])))
	k, v := c.kv.Type.RowBytes(c.kv.KWidth), c.kv.Type.RowBytes(c.kv.VWidth)
	return []graph.Operand{{Buf: c.kv.K, Off: at * k, Len: k}, {Buf: c.kv.V, Off: at * v, Len: v}}, nil
}

// sums are checksums of each input, 0 where it is the output too, and of what
// is around the output: for KvcacheStore all rows of the region but those of
// its positions, and last of both regions but for the rows of a fused node.
func (c *call) sums(rows []graph.Operand) ([]uint64, error) {
	var sums []uint64
	for i, o := range c.in {
		sum := uint64(0)
		if !c.inPlace(i) {
			b := make([]byte, o.Len)
			if err := c.w.inner.ReadHost(o.Buf, o.Off, b); err != nil {
				return nil, err
			}
			sum = maphash.Bytes(c.w.seed, b)
		}
		sums = append(sums, sum)
	}
	rest := make([]byte, c.dst.size+guard)
	if err := c.w.inner.ReadHost(c.out.Buf, 0, rest); err != nil {
		return nil, err
	}
	if c.node.Op == graph.KvcacheStore {
		pos := make([]byte, c.in[1].Len)
		if err := c.w.inner.ReadHost(c.in[1].Buf, c.in[1].Off, pos); err != nil {
			return nil, err
		}
		row := c.node.Type.RowBytes(c.node.Shape[0])
		for ; len(pos) >= 4; pos = pos[4:] {
			if p := int(int32(binary.LittleEndian.Uint32(pos))); p >= 0 && (p+1)*row <= c.dst.size {
				clear(rest[p*row : (p+1)*row])
			}
		}
	} else {
		clear(rest[c.out.Off : c.out.Off+c.out.Len])
	}
	sums = append(sums, maphash.Bytes(c.w.seed, rest))
	for _, r := range rows {
		region := make([]byte, c.kv.Capacity*r.Len+guard)
		if err := c.w.inner.ReadHost(r.Buf, 0, region); err != nil {
			return nil, err
		}
		clear(region[r.Off : r.Off+r.Len])
		sums = append(sums, maphash.Bytes(c.w.seed, region))
	}
	return sums, nil
}
