package metal

import (
	"fmt"
	"math"
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
	tierFew
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

	multiRows       = 2 // outputs of a threadgroup
	multiSimdgroups = 2
)

// singleSimdgroups is the most of a threadgroup of the single and few tiers. The kernels
// have room for the sums of that many: SINGLE_SIMDGROUPS in mul_mv.metal.
const singleSimdgroups = 8

// cut is how products of one token are cut: the outputs of a threadgroup, which the kernel
// has fixed, and, as measured on an H200 and nowhere else, how many columns a simdgroup is
// counted for, how many simdgroups to make of few rows, which depends on how many of the
// kernel run there at once, the most that share a row, and how many bytes of long rows are
// worth fetching ahead.
//
// columns is no step of the kernel. One of q4_0 is of 512 columns and one of few of q4_K of
// 1024: where rows are short, as of 896 or 1536 columns, some of the simdgroups that are
// counted so have nothing to multiply, and only fetch ahead. A GPU that fetches nothing
// ahead has them for nothing.
type cut struct{ rows, columns, enough, most, ahead int }

var single = map[gguf.Type]cut{
	gguf.F32: {2, 256, 7200, 5, 0}, gguf.F16: {2, 256, 7200, 5, 0}, gguf.BF16: {2, 256, 7200, 5, 0},
	gguf.Q4_0: {8, 128, 2640, 5, 1024}, gguf.Q4_1: {4, 512, 4480, 5, 1024}, gguf.Q5_0: {4, 512, 4480, 5, 1024}, gguf.Q5_1: {4, 512, 4480, 5, 1024},
	gguf.Q8_0: {4, 512, 120000, 8, 4096}, gguf.Q4_K: {8, 512, 19000, 5, 1024}, gguf.Q5_K: {8, 512, 19000, 5, 1024}, gguf.Q6_K: {4, 512, 120000, 5, 1024},
}

// few has the types that have a kernel of their own for few rows.
var few = map[gguf.Type]cut{gguf.Q4_0: {4, 128, 3696, 6, 1024}, gguf.Q4_K: {4, 512, 3696, 5, wholeRow}}

const (
	// aheadRow is the length of rows up to which they are fetched ahead as a whole.
	aheadRow = 4096
	// wholeRow, for cut's ahead, is longer than rows are.
	wholeRow = math.MaxInt32
)

// Single is how a product of one token is launched.
type Single struct {
	Variant string // of the kernel
	Groups  int    // threadgroups
	// Simdgroups share the columns of a threadgroup's rows: one where there are rows enough
	// to fill a large GPU, else as many as the columns are counted for.
	Simdgroups int
	// Ahead is how many bytes of each row are worth fetching ahead (mtl.Binding). Where
	// every row has a simdgroup of its own there are enough of them under way that the
	// memory does not rest, and rows without blocks keep it busy as well: none then.
	Ahead int
}

// SingleOf is the launch of a type's product of one token.
func SingleOf(t gguf.Type, inDim, outDim int) Single {
	tier := singleTier(t, inDim, outDim)
	s := Single{Variant: mulMats[t][tier].Variant}
	one := single[t]
	switch tier {
	case tierMulti:
		s.Groups, s.Simdgroups = ceil(outDim, multiRows), multiSimdgroups
		return s
	case tierFew:
		one = few[t]
	}
	if s.Groups = ceil(outDim, one.rows); outDim < one.rows {
		s.Groups = outDim
	}
	s.Simdgroups = max(1, min(one.most, one.enough/s.Groups, 2*inDim/(3*one.columns)))
	if row := t.RowBytes(inDim); s.Simdgroups > 1 && t.BlockSize() > 1 {
		if s.Ahead = row; row > aheadRow {
			s.Ahead = min(row, one.ahead)
		}
	}
	return s
}

// singleTier is the tier for one token.
func singleTier(t gguf.Type, inDim, outDim int) int {
	_, has := few[t]
	switch {
	case t == gguf.Q4_0 && inDim%64 != 0: // the kernels take pairs of blocks
		return tierMulti
	case has && outDim <= inDim:
		return tierFew
	}
	return tierSingle
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
			Variant: "multi", Lever: "MINFER_GEMM", When: "2 tokens or more, otherwise; 1 token of q4_0 where in_dim is no multiple of 64",
			Bound: Bound{C: 128, Why: "as gemm with n = k/32 + 5, the longest way through 32 sums and the tree that joins them: 98 for k = 18,944; " +
				"more for short sums that a single product of two peaks makes up"},
		},
		tierSingle: {
			Variant: "single", When: "1 token, otherwise",
			Bound: Bound{C: 128, Why: "as multi, k shared by 32 lanes or more; quantised types of up to 6 bits sum (quant + their range)*x in runs of 4 to 32 " +
				"before they scale: partial sums of up to four times the products of the signed quant"},
		},
		tierFew: {
			Variant: "few", When: "1 token, out_dim <= in_dim",
			Bound: Bound{C: 128, Why: "as single"},
		},
	}
	m := map[gguf.Type]*[tiers]*Entry{}
	for _, t := range weightTypes {
		m[t] = new([tiers]*Entry)
		for i, e := range tier {
			if _, has := few[t]; i == tierFew && !has {
				continue
			}
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
		for _, e := range mulMats[t] {
			if e != nil {
				table = append(table, e)
			}
		}
	}
	return table
}

// matMulTier is the tier for tokens rows of activations. from is that of the options, of
// the device where they leave it.
func matMulTier(t gguf.Type, tokens, inDim, outDim int, gemm bool, from int) int {
	fills := outDim >= gemmMinRows || tokens >= gemmMinTokens
	if from > 0 {
		fills = outDim*tokens >= from
	}
	switch {
	case tokens == 1:
		return singleTier(t, inDim, outDim)
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
	tier := matMulTier(w.Type, tokens, inDim, outDim, b.o.Levers.GEMM, b.o.GEMMFrom)
	g := grid{Groups: mtl.Size{X: ceil(outDim, multiRows)}, Threads: mtl.Size{X: 32 * multiSimdgroups}}
	switch {
	case tier == tierGEMM:
		g.Groups, g.Threads = mtl.Size{X: ceil(outDim, gemmRows), Y: ceil(tokens, gemmTokens)}, mtl.Size{X: gemmThreads}
	case tokens == 1:
		one := SingleOf(w.Type, inDim, outDim)
		g.Groups, g.Threads = mtl.Size{X: one.Groups}, mtl.Size{X: 32 * one.Simdgroups}
		bind[0].Rows, bind[0].Ahead = outDim, one.Ahead
	}
	return b.launch(entries[tier], n, bind, g)
}
