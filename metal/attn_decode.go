package metal

import (
	"fmt"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/metal/mtl"
)

const (
	// maxAttnChunks is the most KV chunks that decode flash takes; a chunk is for
	// 32 cells or more.
	maxAttnChunks = 16
	flashTile     = 32
	// flashSimdgroups is SIMDGROUPS of attn_flash_decode.metal.
	flashSimdgroups = 4
	// splitPart is PART of attn_split.metal, a thread for each cell of a part.
	splitPart = 128
)

// attnBound is the bound of a kernel that keeps scores, weights and sums in
// float32. k is the cells that a row sees and the terms are weight times value. A
// weight is off by the error of its score, a few u of the sizes summed (up to about
// 16), and by that of its exponential, 3 + 2|x| units with x a difference of scores:
// some 40u in all, in either direction. The sum of k such terms is off by 40u times
// its size, which is up to six times sqrt(k) * RMS(terms) where few cells have most
// of the weight; chained sums add less than that.
func attnBound() Bound {
	return Bound{C: 256, Why: "weights off by 40u (scores of size up to 16, exp with 3 + 2|x| ulp), results up to 6 sqrt(k) RMS(terms)"}
}

func attnTable() []*Entry {
	var list []*Entry
	for _, t := range []gguf.Type{gguf.F32, gguf.F16} {
		list = append(list, &Entry{
			Op: graph.Attn.String(), Type: t.String(), Variant: attnClassic, Kernel: "kernel_attn_classic_" + t.String(),
			When:  "decode with no flash or split kernel for it, prefill with flash and the three passes off",
			Lever: "MINFER_NO_SPLIT_ATTN, MINFER_NO_MATMUL_ATTN", Bound: attnBound(),
		})
	}
	return list
}

func attnDecodeTable() []*Entry {
	var list []*Entry
	for _, hd := range []int{64, 128} {
		for _, t := range []gguf.Type{gguf.F32, gguf.F16, gguf.Q8_0} {
			list = append(list, &Entry{
				Op: graph.Attn.String(), Type: t.String(), Variant: headVariant(attnFlashDecode, hd),
				Kernel: fmt.Sprintf("kernel_attn_flash_decode_%v_%d", t, hd),
				When:   fmt.Sprintf("one row, head_dim %d", hd), Lever: "MINFER_NO_FLASH", Bound: attnBound(),
			})
		}
		for _, t := range []gguf.Type{gguf.F32, gguf.F16} {
			list = append(list, &Entry{
				Op: graph.Attn.String(), Type: t.String(), Variant: headVariant(attnSplit, hd),
				Kernel: fmt.Sprintf("kernel_attn_split_%v_%d", t, hd),
				When:   fmt.Sprintf("one row, head_dim %d, flash off", hd), Lever: "MINFER_NO_SPLIT_ATTN", Bound: attnBound(),
			})
		}
	}
	return append(list, attnCombine)
}

// attnCombine joins the chunks of decode flash and of split attention.
var attnCombine = &Entry{
	Op: graph.Attn.String(), Variant: "combine", Kernel: "kernel_attn_combine",
	When: "after flash_decode and split", Bound: attnBound(),
}

// headVariant is "flash_decode_64".
func headVariant(variant string, headDim int) string { return fmt.Sprintf("%s_%d", variant, headDim) }

// classicThreads is the size of a threadgroup of the classic kernel: a thread for
// each channel of a head, in whole simdgroups.
func classicThreads(headDim int) int { return ceil(headDim, 32) * 32 }

// attnParams is AttnParams of attn.h.
func (b *Backend) attnParams(index int, a *attention, chunks int) mtl.Binding {
	return b.params(index, a.nHead, a.nHeadKV, a.headDim, a.nKV, chunks, a.scale)
}

// attnClassic encodes the classic kernel, whatever the shape.
func (b *Backend) attnClassic(a *attention) error {
	e, err := b.attnEntry(a, attnClassic, 0)
	if err != nil {
		return err
	}
	return b.launch(e, a.n, []mtl.Binding{
		b.read(0, a.q, mtl.Float32), b.cache(1, a.k, a.kvType), b.cache(2, a.v, a.kvType), b.read(3, a.pos, mtl.Int32),
		b.output(4, a.out, mtl.Float32), b.attnParams(5, a, 1),
	}, grid{Groups: mtl.Size{X: a.nHead, Y: a.rows}, Threads: mtl.Size{X: classicThreads(a.headDim)}})
}

// flashChunks is the number of KV chunks of decode flash: the lever's, or one for
// each 32 cells of the window and at most 16.
func (b *Backend) flashChunks(nKV int) int {
	if n := b.o.Levers.AttnChunks; n > 0 {
		return min(n, maxAttnChunks)
	}
	return min(ceil(nKV, flashTile), maxAttnChunks)
}

// decodeFlash encodes one row over a cache of any type. A chunk is as many tiles
// as it takes; up to four simdgroups share it.
func (b *Backend) decodeFlash(a *attention) error {
	chunks := b.flashChunks(a.nKV)
	tiles := ceil(ceil(a.nKV, chunks), flashTile)
	return b.twoPass(a, attnFlashDecode, chunks, 32*min(tiles, flashSimdgroups))
}

// decodeSplit encodes one row in parts of at most 128 cells.
func (b *Backend) decodeSplit(a *attention) error {
	return b.twoPass(a, attnSplit, ceil(a.nKV, splitPart), splitPart)
}

// twoPass encodes a kernel that leaves a weighted sum, a maximum and a sum of
// weights for each head and chunk, and the one that joins them.
func (b *Backend) twoPass(a *attention, variant string, chunks, threads int) error {
	e, err := b.attnEntry(a, headVariant(variant, a.headDim), 0)
	if err != nil {
		return err
	}
	slots := a.nHead * chunks
	partial, err := b.scratch("attention partial", 4*slots*a.headDim)
	if err != nil {
		return err
	}
	state, err := b.scratch("attention state", 4*slots*2)
	if err != nil {
		return err
	}
	// Chunks behind the row's position stay unwritten, and unread.
	err = b.launch(e, a.n, []mtl.Binding{
		b.read(0, a.q, mtl.Float32), b.cache(1, a.k, a.kvType), b.cache(2, a.v, a.kvType), b.read(3, a.pos, mtl.Int32),
		b.write(4, partial, mtl.Float32), b.write(5, state, mtl.Float32), b.attnParams(6, a, chunks),
	}, grid{Groups: mtl.Size{X: a.nHead, Y: chunks}, Threads: mtl.Size{X: threads}})
	if err != nil {
		return err
	}
	return b.launch(attnCombine, a.n, []mtl.Binding{
		b.read(0, partial, mtl.Float32), b.read(1, state, mtl.Float32), b.read(2, a.pos, mtl.Int32),
		b.output(3, a.out, mtl.Float32), b.attnParams(4, a, chunks),
	}, grid{Groups: mtl.Size{X: a.nHead}, Threads: mtl.Size{X: a.headDim}})
}
