package metal

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"minfer/engine/graph"
	"minfer/metal/mtl"
)

var errClosed = errors.New("metal: the backend is closed")

// grid is the extent of one launch: Groups threadgroups, or Grid threads with
// ragged edges, of Threads each. A zero Y or Z counts as 1.
type grid struct {
	Groups  mtl.Size
	Threads mtl.Size // of one threadgroup
	Grid    mtl.Size // threads of all, instead of Groups
	Memory  []int    // bytes of each [[threadgroup(n)]] argument
}

func full(s mtl.Size) mtl.Size {
	if s == (mtl.Size{}) {
		return s
	}
	return mtl.Size{X: s.X, Y: max(s.Y, 1), Z: max(s.Z, 1)}
}

// ceil is a/b rounded up.
func ceil(a, b int) int { return (a + b - 1) / b }

// launch encodes one dispatch of an entry and a barrier. n is the node for the
// label, nil for none. An error that a binding met on the way is returned here.
func (b *Backend) launch(e *Entry, n *graph.Node, bind []mtl.Binding, g grid) error {
	err := b.err
	b.err = nil
	defer func() { b.bytes = b.bytes[:0] }()
	if err != nil {
		return err
	}
	if e == nil {
		return fmt.Errorf("the dispatch table has no entry for this")
	}
	p, err := b.pipeline(e)
	if err != nil {
		return err
	}
	cb, err := b.commands()
	if err != nil {
		return err
	}
	d := mtl.Dispatch{
		Label: label(e, n), Pipeline: p, Bindings: bind, ThreadgroupMemory: g.Memory,
		Threadgroups: full(g.Groups), Threads: full(g.Grid), ThreadsPerThreadgroup: full(g.Threads),
	}
	if err := cb.Dispatch(d); err != nil {
		return err
	}
	cb.Barrier()
	b.dispatched(e, &d)
	if b.o.Launched != nil {
		b.o.Launched(e)
	}
	return nil
}

// pipeline is an entry's.
func (b *Backend) pipeline(e *Entry) (mtl.Pipeline, error) {
	p := b.pipelines[e]
	switch {
	case p == nil && len(b.pipelines) == 0:
		return nil, fmt.Errorf("%s: the pipelines were released, want them kept until the backend is closed", e.ID())
	case p == nil:
		return nil, fmt.Errorf("%s: no pipeline: the entry is not of Table", e.ID())
	}
	return p, nil
}

// label is "mul_mat q4_0 gemm blk.3.ffn_down".
func label(e *Entry, n *graph.Node) string {
	switch {
	case n == nil:
		return e.ID()
	case n.Weight != nil:
		return e.ID() + " " + strings.TrimSuffix(n.Weight.Name, ".weight")
	}
	return e.ID() + " " + n.Name
}

// commands is the command buffer of the split, made when there is none.
func (b *Backend) commands() (mtl.CommandBuffer, error) {
	if b.cb != nil {
		return b.cb, nil
	}
	cb, err := b.dev.NewCommandBuffer(fmt.Sprintf("split %d", b.epoch+1))
	if err != nil {
		return nil, err
	}
	b.epoch++
	b.cb, b.nodes = cb, 0
	return cb, nil
}

// Synchronize submits what was encoded and waits for it, at most the deadline. Of
// nothing it is nothing. After a missed deadline the backend refuses all but
// Close, Synchronize too: the work may still run and use its memory.
func (b *Backend) Synchronize() error {
	if b.hung != nil && !b.closed {
		b.discard()
		return b.alive()
	}
	if b.cb == nil {
		return nil
	}
	cb := b.cb
	b.cb = nil
	err := b.submit(cb)
	if b.o.Poison && err == nil {
		for _, h := range b.scratchs {
			b.poison(h.mem)
		}
	}
	return err
}

func (b *Backend) submit(cb mtl.CommandBuffer) error {
	ctx, cancel := context.WithTimeout(context.Background(), b.o.Deadline)
	defer cancel()
	timing, err := cb.Submit(ctx)
	if err == nil && b.o.Timed != nil {
		b.o.Timed(timing)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		b.hung = err
	}
	return err
}

// alive is an error once the backend is closed or a submit missed its deadline.
func (b *Backend) alive() error {
	switch {
	case b.closed:
		return errClosed
	case b.hung != nil:
		return fmt.Errorf("metal: an earlier submit missed its deadline of %v and may still run: %w", b.o.Deadline, b.hung)
	}
	return nil
}

// discard drops what was encoded.
func (b *Backend) discard() {
	if b.cb != nil {
		b.cb.Discard()
		b.cb = nil
	}
}
