package metal

import (
	"fmt"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/metal/mtl"
)

// The fused nodes of a decoded token: one product with the concatenated weight, by
// the tier for one token, and one kernel for all that follows.

func fusedTable() []*Entry {
	const lever = "MINFER_NO_FUSE_QKV"
	qkv := Bound{C: 256, Why: "k and terms are the product's, those of a rotated value the length of its pair's: its 128, and as much for the roundings of bias, rotation and store"}
	norm := Bound{C: 256, Why: "as fused_qkv, the terms of a value of q or k times the factor of its norm, |weight| / RMS(head), before the rotation; " +
		"the norm's own roundings are among those of what follows the product"}
	var table []*Entry
	for _, t := range []gguf.Type{gguf.F32, gguf.F16, gguf.Q8_0} {
		kernel, when := "kernel_fused_qkv_"+t.String(), "1 token, KV cache of that type, one weight for q, k and v"
		table = append(table,
			&Entry{Op: graph.FusedQKV.String(), Type: t.String(), Kernel: kernel, When: when, Lever: lever, Bound: qkv},
			&Entry{Op: graph.FusedQkvNorm.String(), Type: t.String(), Kernel: kernel, When: when + ", norms of q and k", Lever: lever, Bound: norm})
	}
	return append(table, &Entry{
		Op: graph.FusedFFN.String(), Kernel: "kernel_swiglu_off",
		When: fmt.Sprintf("1 token, n_ff <= %d, one weight for gate and up", MaxFusedFF), Lever: "MINFER_NO_FUSE_FFN",
		Bound: Bound{C: 128, Why: "k and terms are the product's, terms times 1.1*|up| + |silu(gate)|, by which an error of gate and one of up reach the value: " +
			"the slope of silu is at most 1.1; and the roundings of swiglu"},
	})
}

// checkFusedQKV is the guards of FusedQKV and FusedQkvNorm.
func (b *Backend) checkFusedQKV(n *graph.Node, kv graph.DType) error {
	a := n.Attr
	switch {
	case a.HeadDim < 1 || a.NHead < 1 || a.NHeadKV < 1:
		return refuse(n, "head_dim %d, n_head %d, n_head_kv %d, want positive numbers", a.HeadDim, a.NHead, a.NHeadKV)
	case n.Weight == nil:
		return refuse(n, "no weight")
	}
	values := valueDim(n)
	memory := 16 * ceil(4*max(a.HeadDim, values), 16)
	switch {
	case values < 1 || (values*a.NHeadKV) != n.Weight.Shape[1]-(a.NHead+a.NHeadKV)*a.HeadDim:
		return refuse(n, "weight %s has %d rows, want (n_head %d + n_head_kv %d) * head_dim %d and a multiple of n_head_kv more",
			n.Weight.Name, n.Weight.Shape[1], a.NHead, a.NHeadKV, a.HeadDim)
	case kv != gguf.F32 && kv != gguf.F16 && kv != gguf.Q8_0:
		return refuse(n, "KV cache of type %v, want f32, f16 or q8_0", kv)
	case kv == gguf.Q8_0 && (a.HeadDim%32 != 0 || values%32 != 0):
		return refuse(n, "heads of %d and %d values in a q8_0 cache, want multiples of 32", a.HeadDim, values)
	case memory > b.limits.MaxThreadgroupMemory:
		return refuse(n, "a head needs %d bytes of threadgroup memory, the device has %d", memory, b.limits.MaxThreadgroupMemory)
	case (n.Norm != nil) != (n.Op == graph.FusedQkvNorm):
		return refuse(n, "norm weight given: %v, want %v", n.Norm != nil, n.Op == graph.FusedQkvNorm)
	}
	for _, w := range []struct {
		weight *graph.Weight
		size   int
	}{{n.Bias, n.Weight.Shape[1]}, {n.Norm, 2 * a.HeadDim}} {
		if w.weight != nil {
			if err := checkVector(n, w.weight, w.size); err != nil {
				return err
			}
		}
	}
	return rotation{a.Rope, n.Factors}.check(n, a.HeadDim)
}

// valueDim is the values of a value head of a fused projection.
func valueDim(n *graph.Node) int {
	a := n.Attr
	return (n.Weight.Shape[1] - (a.NHead+a.NHeadKV)*a.HeadDim) / a.NHeadKV
}

// fusedQKV encodes FusedQKV and FusedQkvNorm: the product, then bias, norm,
// rotation and the stores. A position outside of the cache stores nothing.
func (b *Backend) fusedQKV(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	if kv == nil {
		return fmt.Errorf("no KV cache")
	}
	if err := b.checkFusedQKV(n, kv.Type); err != nil {
		return err
	}
	a, rows, values := n.Attr, n.Weight.Shape[1], valueDim(n)
	if kv.KWidth != a.NHeadKV*a.HeadDim || kv.VWidth != a.NHeadKV*values {
		return refuse(n, "rows of %d and %d values of K and V, the cache has %d and %d", a.NHeadKV*a.HeadDim, a.NHeadKV*values, kv.KWidth, kv.VWidth)
	}
	if err := checkCache(n, kv); err != nil {
		return err
	}
	if out.Len != 4*a.NHead*a.HeadDim || in[1].Len != 4 {
		return fmt.Errorf("output of %d bytes and positions of %d, want %d and 4", out.Len, in[1].Len, 4*a.NHead*a.HeadDim)
	}
	x, err := b.scratch("fused_qkv", 4*rows)
	if err != nil {
		return err
	}
	if err := b.multiply(n, n.Weight, in[0], nil, x, 1); err != nil {
		return err
	}
	projected := b.read(2, x, mtl.Float32)
	bias, norm := projected, projected // bound to something, as they must be; not read
	bias.Index, norm.Index = 0, 1
	if n.Bias != nil {
		if bias, err = b.weight(0, n.Bias); err != nil {
			return err
		}
	}
	if n.Norm != nil {
		if norm, err = b.weight(1, n.Norm); err != nil {
			return err
		}
	}
	r := rotation{a.Rope, n.Factors}
	region := func(index int, buf graph.Buffer, width int) mtl.Binding {
		return b.write(index, graph.Operand{Buf: buf, Len: kv.Type.RowBytes(width) * kv.Capacity}, cacheType(kv.Type))
	}
	return b.launch(Lookup(n.Op.String(), kv.Type.String(), ""), n, []mtl.Binding{
		bias, norm, projected, b.read(3, in[1], mtl.Int32), b.output(4, out, mtl.Float32),
		region(5, kv.K, kv.KWidth), region(6, kv.V, kv.VWidth),
		b.params(7, a.HeadDim, a.Rope.NDims, a.NHead, a.Rope.Mode == graph.RopeNeox, r.magnitude(),
			a.NHeadKV, values, kv.Capacity, n.Bias != nil, n.Norm != nil, a.Eps),
		b.rotationTurns(8, r),
	}, grid{
		Groups: mtl.Size{X: a.NHead + 2*a.NHeadKV}, Threads: mtl.Size{X: 32},
		Memory: []int{16 * ceil(4*max(a.HeadDim, values), 16)},
	})
}

// fusedFFN encodes FusedFFN: the product with the gates' and the factors' rows,
// then silu(gate)*up.
func (b *Backend) fusedFFN(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	w := n.Weight
	switch {
	case w == nil:
		return refuse(n, "no weight")
	case w.Shape[1] != 2*n.Shape[0]:
		return refuse(n, "weight %s has %d rows, want those of gate and up: 2 * n_ff = %d", w.Name, w.Shape[1], 2*n.Shape[0])
	case n.Shape[0] > MaxFusedFF:
		return refuse(n, "n_ff is %d, want at most %d", n.Shape[0], MaxFusedFF)
	case n.Shape.Rows() != 1:
		return refuse(n, "%d tokens, want 1", n.Shape.Rows())
	case out.Len != 4*n.Shape[0]:
		return fmt.Errorf("output of %d bytes, want %d", out.Len, 4*n.Shape[0])
	}
	x, err := b.scratch("fused_ffn", 4*w.Shape[1])
	if err != nil {
		return err
	}
	if err := b.multiply(n, w, in[0], nil, x, 1); err != nil {
		return err
	}
	return b.launch(Lookup(n.Op.String(), "", ""), n, []mtl.Binding{
		b.read(0, x, mtl.Float32), b.output(1, out, mtl.Float32), b.params(2, n.Shape[0], n.Shape[0]),
	}, elements(n.Shape[0]))
}
