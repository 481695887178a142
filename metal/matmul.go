package metal

import (
	"fmt"
	"strings"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/metal/mtl"
)

// weightTypes are those that matrices and tables may have.
var weightTypes = []gguf.Type{
	gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K,
}

// The tiers of MatMul.
const (
	tierGEMM = iota
	tierMulti
	tierSingle
	tiers
)

const (
	gemmRows    = 64 // outputs, tokens and threads of a tile of the gemm tier
	gemmTokens  = 64
	gemmThreads = 128
	// From that many outputs on, or tokens, a product fills the tiles of the gemm
	// tier well enough.
	gemmMinRows   = 2048
	gemmMinTokens = 9

	// GEMMByShape among the options has that decide on every device.
	GEMMByShape = -1

	multiRows = 2 // outputs of a threadgroup
)

// singleSimdgroups is the most of a threadgroup of the single tier. The kernels have
// room for the sums of that many: SINGLE_SIMDGROUPS in mul_mv.metal.
const singleSimdgroups = 5

// single is how the single tier cuts products of a type: outputs of a threadgroup, which
// its kernel has fixed, and as measured on a large GPU: of how many columns a simdgroup
// should have a share (at least what it takes in one step; q8_0's takes 256), and how
// many simdgroups to make of few rows, which depends on how many of the kernel run there
// at once.
var single = map[gguf.Type]struct{ rows, columns, enough int }{
	gguf.F32: {2, 256, 7200}, gguf.F16: {2, 256, 7200}, gguf.BF16: {2, 256, 7200},
	gguf.Q4_0: {4, 512, 2700}, gguf.Q4_1: {4, 512, 3600}, gguf.Q5_0: {4, 512, 3600}, gguf.Q5_1: {4, 512, 2700}, gguf.Q8_0: {4, 512, 19000},
	gguf.Q4_K: {8, 512, 2300}, gguf.Q5_K: {8, 512, 2300}, gguf.Q6_K: {4, 512, 19000},
}

// SingleGrid is the threadgroups of the single tier, and the simdgroups that share the
// columns of a threadgroup's rows: one where there are rows enough to fill a large
// GPU, up to singleSimdgroups while each takes columns more than once.
func SingleGrid(t gguf.Type, inDim, outDim int) (groups, simdgroups int) {
	one := single[t]
	if groups = ceil(outDim, one.rows); outDim < one.rows {
		groups = outDim
	}
	return groups, max(1, min(singleSimdgroups, one.enough/groups, 2*inDim/(3*one.columns)))
}

// mulMats is the entries by type and tier.
var mulMats = func() map[gguf.Type]*[tiers]*Entry {
	tier := [tiers]Entry{
		tierGEMM: {
			Variant: "gemm", Lever: "MINFER_GEMM",
			When: fmt.Sprintf("2 tokens or more, and out_dim >= %d or %d tokens or more; outputs times tokens >= GEMMFrom where the device has it", gemmMinRows, gemmMinTokens),
			Bound: Bound{C: 551, Why: "float32 throughout, one sum over k in order: n roundings of partial sums of up to 4*sqrt(k)*RMS(terms), " +
				"independent of each other, make 4*sqrt(n)*u*sqrt(k)*RMS(terms); n is k, 18,944 at most. On NVIDIA's tensor cores 32 products " +
				"make one such rounding, 97u, and a product is off by 2^-15 of itself, 512u, at most, by 74u as an RMS: " +
				"512u of a sum that one product makes up, 4*74u = 297u and the 97u of one of many"},
		},
		tierMulti: {
			Variant: "multi", Lever: "MINFER_GEMM", When: "2 tokens or more, otherwise",
			Bound: Bound{C: 128, Why: "as gemm with n = k/32 + 5, the longest way through 32 sums and the tree that joins them: 98 for k = 18,944; " +
				"more for short sums that a single product of two peaks makes up"},
		},
		tierSingle: {
			Variant: "single", When: "1 token",
			Bound: Bound{C: 128, Why: "as multi, k shared by 32 lanes or more; quantised types of up to 6 bits sum (quant + their range)*x in runs of 4 to 32 " +
				"before they scale: partial sums of up to four times the products of the signed quant"},
		},
	}
	m := map[gguf.Type]*[tiers]*Entry{}
	for _, t := range weightTypes {
		m[t] = new([tiers]*Entry)
		for i, e := range tier {
			e.Op, e.Type = graph.MatMul.String(), t.String()
			e.Kernel = fmt.Sprintf("kernel_mul_mat_%s_%s", strings.ToLower(e.Type), e.Variant)
			m[t][i] = &e
		}
	}
	return m
}()

func matMulTable() []*Entry {
	var table []*Entry
	for _, t := range weightTypes {
		table = append(table, mulMats[t][:]...)
	}
	return table
}

// matMulTier is the tier for tokens rows of activations and outDim outputs. from is
// that of the options, of the device where they leave it.
func matMulTier(tokens, outDim int, gemm bool, from int) int {
	fills := outDim >= gemmMinRows || tokens >= gemmMinTokens
	if from > 0 {
		fills = outDim*tokens >= from
	}
	switch {
	case tokens == 1:
		return tierSingle
	case gemm && fills:
		return tierGEMM
	}
	return tierMulti
}

// matMul is y = W x (+ bias): the weight [in_dim, out_dim] of any type, x [in_dim,
// tokens] and y [out_dim, tokens] of floats.
func (b *Backend) matMul(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	if n.Weight == nil {
		return fmt.Errorf("no weight")
	}
	if n.Shape[0] != n.Weight.Shape[1] {
		return fmt.Errorf("%d outputs of the weight %s %v", n.Shape[0], n.Weight.Name, n.Weight.Shape)
	}
	return b.multiply(n, n.Weight, in[0], n.Bias, out, n.Shape.Rows())
}

// multiply encodes tokens products with a weight. The fused nodes use it for what
// they replace. bias is nil for none.
func (b *Backend) multiply(n *graph.Node, w *graph.Weight, x graph.Operand, bias *graph.Weight, y graph.Operand, tokens int) error {
	inDim, outDim := w.Shape[0], w.Shape[1]
	entries := mulMats[w.Type]
	switch {
	case entries == nil:
		return refuse(n, "weight %s of type %v, want one of %v", w.Name, w.Type, weightTypes)
	case inDim <= 0 || outDim <= 0 || w.Shape[2] != 1 || w.Shape[3] != 1:
		return refuse(n, "weight %s has shape %v, want a matrix", w.Name, w.Shape)
	case inDim%w.Type.BlockSize() != 0:
		return refuse(n, "weight %s of type %v has in_dim %d, want a multiple of %d", w.Name, w.Type, inDim, w.Type.BlockSize())
	case len(w.Data) != w.Type.RowBytes(inDim)*outDim:
		return refuse(n, "weight %s of type %v %v has %d bytes, want %d", w.Name, w.Type, w.Shape, len(w.Data), w.Type.RowBytes(inDim)*outDim)
	case bias != nil && (bias.Type != gguf.F32 || bias.Shape.Elements() != outDim):
		return refuse(n, "bias %s is %v %v, want f32 of %d elements", bias.Name, bias.Type, bias.Shape, outDim)
	case x.Len != 4*inDim*tokens || y.Len != 4*outDim*tokens:
		return fmt.Errorf("activations of %d bytes and output of %d for %d tokens of weight %s %v, want %d and %d",
			x.Len, y.Len, tokens, w.Name, w.Shape, 4*inDim*tokens, 4*outDim*tokens)
	case max(inDim, outDim)*tokens > maxElements:
		return refuse(n, "%d tokens of weight %s %v, want at most %d values", tokens, w.Name, w.Shape, maxElements)
	case tokens == 0:
		return nil
	}
	weight, err := b.weight(0, w)
	if err != nil {
		return err
	}
	values := b.read(1, x, mtl.Float32)
	added := values // bound to something, as it must be; not read
	added.Index = 2
	if bias != nil {
		if added, err = b.weight(2, bias); err != nil {
			return err
		}
	}
	bind := []mtl.Binding{weight, values, added, b.output(3, y, mtl.Float32), b.params(4, inDim, outDim, tokens, bias != nil)}
	tier := matMulTier(tokens, outDim, b.o.Levers.GEMM, b.o.GEMMFrom)
	g := grid{Threads: mtl.Size{X: 64}}
	switch tier {
	case tierGEMM:
		g.Groups, g.Threads = mtl.Size{X: ceil(outDim, gemmRows), Y: ceil(tokens, gemmTokens)}, mtl.Size{X: gemmThreads}
	case tierMulti:
		g.Groups = mtl.Size{X: ceil(outDim, multiRows)}
	default:
		groups, simdgroups := SingleGrid(w.Type, inDim, outDim)
		g.Groups, g.Threads = mtl.Size{X: groups}, mtl.Size{X: 32 * simdgroups}
	}
	return b.launch(entries[tier], n, bind, g)
}
