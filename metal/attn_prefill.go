package metal

import (
	"fmt"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/metal/mtl"
)

// The tiles of the prefill kernels, as the sources have them.
const (
	prefillFlashRows  = 32 // rows of a threadgroup
	parallelRows      = 16 // rows of a simdgroup
	parallelCells     = 32 // cells of a simdgroup
	parallelChannels  = 32 // channels of a simdgroup's output
	prefillSimdgroups = 4
)

// maxScoreBytes bounds the scores that the three passes keep: longer prompts go
// through them in blocks of tokens.
const maxScoreBytes = 16 << 20

// The passes of the parallel variant, as entries name them.
const (
	parallelScores  = attnParallel + "_scores"
	parallelSoftmax = attnParallel + "_softmax"
	parallelOutput  = attnParallel + "_output"
)

// prefillBound holds for the flash and the parallel kernels alike.
var prefillBound = Bound{
	C: 1024,
	Why: "float32 throughout. A weight is exp of a score, so the score's absolute error is the weight's relative one: " +
		"head_dim fused multiply-adds of partial sums up to 16 round to sqrt(128)*16*0.3u = 54u, " +
		"scaling, subtracting the maximum and exp (3+2|x| ulp of a weight e^x) to less than 8u, " +
		"the sum over the cells and the division to one each: 64u of what a row adds up. " +
		"The terms' RMS is that of all rows; a row that few cells outweigh is up to 16 times as large. " +
		"NVIDIA's tensor cores leave out 1.75*2^-20 of a product, 28u, at most, 4.6u as a mean with 3.7u around it, and with each of the 48 additions " +
		"to a score less than its last bit, 17u of it in all as a mean. What all scores lose alike, 22u, moves a weight e^-x by x*e^-x of it, 8u at most; " +
		"the rest, 3.7u times the products' length, 4 where they sum to 16, and 16*0.3u of each addition, is 36u where fma has 54u. " +
		"A result loses 9u likewise: 63u",
}

// attnPrefillTable are the entries of the prefill kernels.
func attnPrefillTable() []*Entry {
	op := graph.Attn.String()
	const lever = "MINFER_NO_MATMUL_ATTN"
	softmax := &Entry{
		Op: op, Variant: parallelSoftmax, Kernel: "kernel_attn_parallel_softmax",
		When: "n_tokens > 1 without prefill flash, second of three passes", Lever: lever, Bound: prefillBound,
	}
	var table []*Entry
	for _, t := range []gguf.Type{gguf.F32, gguf.F16} {
		for _, hd := range []int{64, 128} {
			table = append(table, &Entry{
				Op: op, Type: t.String(), Variant: headVariant(attnPrefillFlash, hd),
				Kernel: fmt.Sprintf("kernel_attn_prefill_flash_%s_%d", t, hd),
				When:   fmt.Sprintf("n_tokens > 1, head_dim %d", hd), Lever: "MINFER_NO_PREFILL_FLASH", Bound: prefillBound,
			})
		}
	}
	for _, t := range []gguf.Type{gguf.F32, gguf.F16} {
		table = append(table, &Entry{
			Op: op, Type: t.String(), Variant: parallelScores, Kernel: "kernel_attn_parallel_scores_" + t.String(),
			When: "n_tokens > 1 without prefill flash, first of three passes", Lever: lever, Bound: prefillBound,
		}, &Entry{
			Op: op, Type: t.String(), Variant: parallelOutput, Kernel: "kernel_attn_parallel_output_" + t.String(),
			When: "n_tokens > 1 without prefill flash, third of three passes", Lever: lever, Bound: prefillBound,
		})
	}
	return append(table, softmax)
}

// prefillFlash encodes one launch: a threadgroup for each 32 rows of each KV head.
// A row is one query head of one token.
func (b *Backend) prefillFlash(a *attention) error {
	e, err := b.attnEntry(a, headVariant(attnPrefillFlash, a.headDim), 0)
	if err != nil {
		return err
	}
	kv := cacheType(a.kvType)
	return b.launch(e, a.n, []mtl.Binding{
		b.read(0, a.q, mtl.Float32), b.read(1, a.k, kv), b.read(2, a.v, kv), b.read(3, a.pos, mtl.Int32),
		b.output(4, a.out, mtl.Float32),
		b.params(5, a.rows, a.nHead, a.nHeadKV, a.nKV, a.scale),
	}, grid{
		Groups:  mtl.Size{X: ceil(a.rows*(a.nHead/a.nHeadKV), prefillFlashRows), Y: a.nHeadKV},
		Threads: mtl.Size{X: 32 * prefillSimdgroups},
	})
}

// prefillParallel encodes three launches for each block of tokens whose scores fit
// into maxScoreBytes.
func (b *Backend) prefillParallel(a *attention) error {
	scores, err := b.attnEntry(a, parallelScores, 0)
	if err != nil {
		return err
	}
	output, err := b.attnEntry(a, parallelOutput, 0)
	if err != nil {
		return err
	}
	softmax := Lookup(graph.Attn.String(), "", parallelSoftmax)

	var (
		heads = a.nHead / a.nHeadKV
		width = 4 * a.nHead * a.headDim // bytes of a token's q and output
		cells = ceil(a.nKV, parallelCells) * parallelCells
		kv    = cacheType(a.kvType)
		size  = func(tokens int) int {
			return 4 * a.nHeadKV * ceil(tokens*heads, parallelRows) * parallelRows * cells
		}
	)
	// Padding is less than one tile of rows a KV head.
	block := min(max((maxScoreBytes/(4*a.nHeadKV*cells)-parallelRows+1)/heads, 1), a.rows)
	stage, err := b.scratch("attention scores", size(block))
	if err != nil {
		return err
	}
	for first := 0; first < a.rows; first += block {
		n := min(block, a.rows-first)
		stage.Len = size(n)
		q, out, pos := window(a.q, first*width, n*width), window(a.out, first*width, n*width), window(a.pos, 4*first, 4*n)
		tiles := ceil(n*heads, parallelRows)
		threads := mtl.Size{X: 32 * prefillSimdgroups}

		if err := b.launch(scores, a.n, []mtl.Binding{
			b.read(0, q, mtl.Float32), b.read(1, a.k, kv), b.read(2, pos, mtl.Int32), b.write(3, stage, mtl.Float32),
			b.params(4, n, a.nHead, a.nHeadKV, a.headDim, a.nKV, a.scale),
		}, grid{Groups: mtl.Size{X: ceil(cells/parallelCells, prefillSimdgroups), Y: tiles, Z: a.nHeadKV}, Threads: threads}); err != nil {
			return err
		}
		if err := b.launch(softmax, a.n, []mtl.Binding{
			b.read(0, pos, mtl.Int32), b.readWrite(1, stage, mtl.Float32),
			b.params(2, n, a.nHead, a.nHeadKV, a.headDim, a.nKV, a.scale),
		}, grid{Groups: mtl.Size{X: tiles * parallelRows / prefillSimdgroups, Y: a.nHeadKV}, Threads: threads}); err != nil {
			return err
		}
		if err := b.launch(output, a.n, []mtl.Binding{
			b.read(0, stage, mtl.Float32), b.read(1, a.v, kv), b.read(2, pos, mtl.Int32), b.output(3, out, mtl.Float32),
			b.params(4, n, a.nHead, a.nHeadKV, a.headDim, a.nKV, a.scale),
		}, grid{Groups: mtl.Size{X: ceil(tiles, prefillSimdgroups), Y: ceil(a.headDim, parallelChannels), Z: a.nHeadKV}, Threads: threads}); err != nil {
			return err
		}
	}
	return nil
}

// window is length bytes of o from off on.
func window(o graph.Operand, off, length int) graph.Operand {
	return graph.Operand{Buf: o.Buf, Off: o.Off + off, Len: length}
}
