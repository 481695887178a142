package metal

import (
	"fmt"
	"slices"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/metal/mtl"
)

// The variants of attention, as entries of the table name them. Those of the
// flash and split families end in the head size: "flash_decode_64".
const (
	attnClassic      = "classic"
	attnSplit        = "split"
	attnFlashDecode  = "flash_decode"
	attnPrefillFlash = "prefill_flash"
	attnParallel     = "parallel"
)

// attention is one Attn node, checked: what every variant is given. Operands are
// q F32 [headDim*nHead, rows], k and v of kvType [headDim*nHeadKV, nKV], pos I32
// [rows] and out as q. Row i sees the cells 0..pos[i], at most nKV of them; query
// head h reads KV head h/(nHead/nHeadKV).
type attention struct {
	n              *graph.Node
	q, k, v        graph.Operand
	pos, out       graph.Operand
	kvType         gguf.Type // F32 or F16; Q8_0 for decode flash alone: the others get its F32 stage
	headDim        int
	nHead, nHeadKV int
	rows, nKV      int
	scale          float32
}

// cache is the binding of a.k or a.v.
func (b *Backend) cache(index int, o graph.Operand, t gguf.Type) mtl.Binding {
	return b.read(index, o, cacheType(t))
}

// flashHead says whether the flash and split families have a kernel for heads of
// this size.
func flashHead(headDim int) bool { return headDim == 64 || headDim == 128 }

// chooseAttn is the variant for a node. Decode (one row) takes flash, else the
// two-pass split, else classic; prefill takes flash, else the three passes, else
// classic. Levers take a step out of the chain, as does a head size without a
// kernel.
func chooseAttn(l lever.Levers, rows, headDim int) string {
	flash := flashHead(headDim)
	if rows == 1 {
		switch {
		case flash && !l.NoFlash:
			return attnFlashDecode
		case flash && !l.NoSplitAttn:
			return attnSplit
		}
		return attnClassic
	}
	switch {
	case flash && !l.NoPrefillFlash:
		return attnPrefillFlash
	case !l.NoMatmulAttn:
		return attnParallel
	}
	return attnClassic
}

// attention encodes an Attn node.
func (b *Backend) attention(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	a, err := b.checkAttn(n, in, out, kv)
	if err != nil || a.rows == 0 {
		return err
	}
	variant := chooseAttn(b.o.Levers, a.rows, a.headDim)
	if variant != attnFlashDecode && a.kvType == gguf.Q8_0 {
		if err := b.stageCache(a); err != nil {
			return err
		}
	}
	switch variant {
	case attnFlashDecode:
		return b.decodeFlash(a)
	case attnSplit:
		return b.decodeSplit(a)
	case attnPrefillFlash:
		return b.prefillFlash(a)
	case attnParallel:
		return b.prefillParallel(a)
	}
	return b.attnClassic(a)
}

// checkAttn holds a node against what the kernels take.
func (b *Backend) checkAttn(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) (*attention, error) {
	at := n.Attr
	if kv == nil {
		return nil, fmt.Errorf("no KV cache")
	}
	if !slices.Contains([]gguf.Type{gguf.F32, gguf.F16, gguf.Q8_0}, kv.Type) {
		return nil, refuse(n, "KV cache of type %v: want f32, f16 or q8_0", kv.Type)
	}
	if limit := b.limits.MaxThreadsPerThreadgroup; at.HeadDim < 1 || at.HeadDim > limit {
		return nil, refuse(n, "head_dim is %d: want 1 to %d", at.HeadDim, limit)
	}
	if at.NHead < 1 || at.NHeadKV < 1 {
		return nil, refuse(n, "n_head is %d and n_head_kv is %d: want at least 1", at.NHead, at.NHeadKV)
	}
	if at.NHead%at.NHeadKV != 0 {
		return nil, refuse(n, "n_head %d is no multiple of n_head_kv %d", at.NHead, at.NHeadKV)
	}
	if w := at.NHeadKV * at.HeadDim; kv.KWidth != w {
		return nil, refuse(n, "rows of the K cache have %d values: want n_head_kv %d * head_dim %d = %d", kv.KWidth, at.NHeadKV, at.HeadDim, w)
	}
	if w := at.NHeadKV * at.HeadDim; kv.VWidth != w {
		return nil, refuse(n, "head_dim of the V cache is %d/%d: want head_dim = %d of the keys", kv.VWidth, at.NHeadKV, at.HeadDim)
	}
	if err := checkCache(n, kv); err != nil {
		return nil, err
	}
	if at.NKV < 1 || at.NKV > kv.Capacity {
		return nil, refuse(n, "n_kv is %d: want 1 to the capacity %d", at.NKV, kv.Capacity)
	}
	if rows := n.Shape.Rows(); rows > maxElements/at.HeadDim/at.NHead {
		return nil, refuse(n, "%d rows of %d heads of %d values, want at most %d values", rows, at.NHead, at.HeadDim, maxElements)
	}
	if kv.Type == gguf.Q8_0 && kv.KWidth%32 != 0 {
		return nil, refuse(n, "q8_0 rows of the KV cache have %d values: want a multiple of 32", kv.KWidth)
	}

	a := &attention{
		n: n, q: in[0], k: in[1], v: in[2], pos: in[3], out: out, kvType: kv.Type,
		headDim: at.HeadDim, nHead: at.NHead, nHeadKV: at.NHeadKV, nKV: at.NKV, scale: at.Scale,
		rows: n.Shape.Rows(),
	}
	width, row := at.NHead*at.HeadDim, kv.Type.RowBytes(kv.KWidth)
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"channels of the output", n.Shape[0], width},
		{"channels of q", n.In[0].Shape[0], width},
		{"rows of q", n.In[0].Shape.Rows(), a.rows},
		{"bytes of q", a.q.Len, 4 * width * a.rows},
		{"bytes of k", a.k.Len, row * a.nKV},
		{"bytes of v", a.v.Len, row * a.nKV},
		{"bytes of the positions", a.pos.Len, 4 * a.rows},
		{"bytes of the output", a.out.Len, 4 * width * a.rows},
	} {
		if c.got != c.want {
			return nil, fmt.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
	return a, nil
}

// stageCache makes F32 copies of the window of a packed cache and points a at
// them.
func (b *Backend) stageCache(a *attention) error {
	for _, s := range []struct {
		name string
		side *graph.Operand
	}{{"attention k", &a.k}, {"attention v", &a.v}} {
		stage, err := b.scratch(s.name, 4*a.nHeadKV*a.headDim*a.nKV)
		if err != nil {
			return err
		}
		if err := b.kvDequantize(a.n, *s.side, stage); err != nil {
			return err
		}
		*s.side = stage
	}
	a.kvType = gguf.F32
	return nil
}

// attnEntry is the entry of a variant for the cache's type; flash and split
// variants carry the head size. An entry whose threadgroup memory the device does
// not have is refused.
func (b *Backend) attnEntry(a *attention, variant string, dynamic int) (*Entry, error) {
	e := Lookup(graph.Attn.String(), a.kvType.String(), variant)
	if e == nil {
		return nil, refuse(a.n, "no %s kernel for a KV cache of type %v", variant, a.kvType)
	}
	if p := b.pipelines[e]; p != nil {
		if need, limit := p.StaticThreadgroupMemory()+dynamic, b.limits.MaxThreadgroupMemory; need > limit {
			return nil, refuse(a.n, "%s needs %d bytes of threadgroup memory: the device has %d", e.ID(), need, limit)
		}
		if limit := p.MaxThreadsPerThreadgroup(); variant == attnClassic && classicThreads(a.headDim) > limit {
			return nil, refuse(a.n, "%s needs %d threads for head_dim %d: the pipeline takes %d", e.ID(), classicThreads(a.headDim), a.headDim, limit)
		}
	}
	return e, nil
}
