package kernel

import (
	"sync"
	"unsafe"
)

// The frame of the AVX-512 products: tiles of 4 weight rows and 8 tokens, whose
// accumulators live in registers while a part of the rows' blocks passes and in
// memory between the parts. A part is as long as fits the first-level cache with
// its tokens; panels of a few row groups wait in the second.

const (
	tileRows   = 4
	tileTokens = 8

	slabTiles  = 16 // tiles of tokens that one unpacking serves
	slabGroups = 8  // row groups

	// Up to so many tokens panels are soon done with, and filling them in the second
	// level takes a fifth of the time: as few row groups are unpacked at a time as the
	// first holds beside the tokens.
	fewTokens  = 32
	firstLevel = 20 << 10
)

// A tiled describes one weight type for [tiled.matMul]. Sizes are bytes of a block
// (for types without blocks, of a step).
type tiled struct {
	elements    int // of a block
	part        int // blocks that a part has at most
	wBytes      int // of a weight block
	aBytes      int // of an activation block
	panelBytes  int // of four rows
	packedBytes int // of eight tokens
	accBytes    int // accumulators of a tile
	pack        func(dst, act0, act1 *byte, pair, blocks int)
	panel       func(dst, w *byte, row, blocks int)
	tile        tileAsm
	half        tileAsm // of the first half of its tokens; nil: there is none
	finish      func(dst *float32, dstStride int, acc *float32)
}

type tileAsm func(acc *float32, panel, packed *byte, blocks, first int, next *byte, lines int)

// ptr is the address of b[i].
func ptr(b []byte, i int) *byte { return &b[i] }

func floatPtr(b []byte, i int) *float32 { return (*float32)(unsafe.Pointer(&b[i])) }

// parts is how a row's blocks are cut: into equal parts, but for the last.
func (t *tiled) partOf(blocks int) int {
	n := (blocks + t.part - 1) / t.part
	return (blocks + n - 1) / n
}

func (t *tiled) tileBytes(n int) int { return n / t.elements * t.packedBytes }

// slabRows and slabTokens are what one part's panels and tiles give.
const (
	slabRows   = slabGroups * tileRows
	slabTokens = slabTiles * tileTokens
)

func (t *tiled) scratchBytes(n int) int {
	return slabGroups*(t.partOf(max(1, n/t.elements))*t.panelBytes+slabTiles*t.accBytes) + 4*slabRows*slabTokens
}

// zeroRows are activations that are not there.
var zeroRows = sync.Map{} // size -> []byte

func zeroRow(size int) []byte {
	if z, ok := zeroRows.Load(size); ok {
		return z.([]byte)
	}
	z, _ := zeroRows.LoadOrStore(size, make([]byte, size))
	return z.([]byte)
}

func (t *tiled) prepareTile(dst, acts []byte, actStride, tokens, n int) {
	blocks := n / t.elements
	if blocks == 0 {
		return
	}
	dst = dst[:blocks*t.packedBytes]
	acts = acts[:(tokens-1)*actStride+blocks*t.aBytes]
	row := func(i int) *byte {
		if i < tokens {
			return ptr(acts, i*actStride)
		}
		return ptr(zeroRow(blocks*t.aBytes), 0)
	}
	for p := range tileTokens / 2 {
		t.pack(&dst[0], row(2*p), row(2*p+1), p, blocks)
	}
}

func (t *tiled) mul(dst []float32, dstStride int, w []byte, stride, rows int, tiles []byte, tokens, n int, scratch []byte) {
	if rows == 0 || tokens == 0 {
		return
	}
	dst = dst[:(tokens-1)*dstStride+rows]
	blocks := n / t.elements
	if blocks == 0 {
		for i := range tokens {
			clear(dst[i*dstStride:][:rows])
		}
		return
	}
	w = w[:(rows-1)*stride+blocks*t.wBytes]
	tileBytes := blocks * t.packedBytes
	tiles = tiles[:(tokens+tileTokens-1)/tileTokens*tileBytes]
	part := t.partOf(blocks)
	panels := scratch[:slabGroups*part*t.panelBytes]
	accs := scratch[len(panels):][:slabGroups*slabTiles*t.accBytes]
	// Results wait here: written one tile at a time they would touch a page for each
	// token.
	out := unsafe.Slice(floatPtr(scratch, len(panels)+len(accs)), slabRows*slabTokens)
	for t0 := 0; t0 < tokens; t0 += slabTokens {
		t1 := min(t0+slabTokens, tokens)
		slab := slabRows
		if t1-t0 <= fewTokens {
			slab = tileRows * max(1, min(firstLevel/(part*t.panelBytes), slabGroups))
		}
		for r0 := 0; r0 < rows; r0 += slab {
			r1 := min(r0+slab, rows)
			groups := (r1 - r0 + tileRows - 1) / tileRows
			for b0 := 0; b0 < blocks; b0 += part {
				nb := min(part, blocks-b0)
				for r := r0; r < r1; r++ {
					i := r - r0
					t.panel(ptr(panels, i/tileRows*part*t.panelBytes), ptr(w, r*stride+b0*t.wBytes), i%tileRows, nb)
				}
				first, last := 0, b0+nb == blocks
				if b0 == 0 {
					first = 1
				}
				// What is unpacked next: the rest of these rows, or the next rows.
				next := prefetch{w: w, start: r0*stride + (b0+nb)*t.wBytes, stride: stride, bytes: min(part, blocks-b0-nb) * t.wBytes, rows: r1 - r0}
				if last {
					next.start, next.bytes, next.rows = r1*stride, min(part, blocks)*t.wBytes, slab
				}
				next.spread((t1 - t0 + tileTokens - 1) / tileTokens * groups)
				for k := t0; k < t1; k += tileTokens {
					tile := t.tile
					if t1-k <= tileTokens/2 && t.half != nil {
						tile = t.half
					}
					packed := ptr(tiles, k/tileTokens*tileBytes+b0*t.packedBytes)
					for g := range groups {
						acc := floatPtr(accs, 0)
						if part < blocks {
							acc = floatPtr(accs, ((k-t0)/tileTokens*slabGroups+g)*t.accBytes)
						}
						line, lines := next.lines()
						tile(acc, ptr(panels, g*part*t.panelBytes), packed, nb, first, line, lines)
						if last {
							t.finish(&out[(k-t0)*slabRows+g*tileRows], slabRows, acc)
						}
					}
				}
			}
			for k := t0; k < t1; k++ {
				copy(dst[k*dstStride+r0:][:r1-r0], out[(k-t0)*slabRows:])
			}
		}
	}
}

// A prefetch hands out the lines of bytes bytes of each of some rows, to as many
// calls as there are.
type prefetch struct {
	w                          []byte
	start, stride, bytes, rows int
	perRow, perCall, row, line int
}

func (p *prefetch) spread(calls int) {
	p.perRow = (p.bytes + 63) / 64
	p.perCall = (p.perRow*p.rows + calls - 1) / max(1, calls)
}

func (p *prefetch) lines() (first *byte, n int) {
	off := p.start + p.row*p.stride + 64*p.line
	if p.row >= p.rows || off >= len(p.w) {
		return nil, 0
	}
	n = min(p.perCall, p.perRow-p.line)
	if p.line += n; p.line == p.perRow {
		p.row, p.line = p.row+1, 0
	}
	return &p.w[off], n
}

// A prepared describes the product with one row.
type prepared struct {
	elements, wBytes, aBytes int
	rowBytes                 int                              // of a prepared block
	row                      func(dst, act *byte, blocks int) // nil: as it is
	mul                      matVecAsm
}

func (p *prepared) bytes(n int) int { return n / p.elements * p.rowBytes }

func (p *prepared) prepare(dst, act []byte, n int) {
	if blocks := n / p.elements; blocks > 0 {
		dst, act = dst[:blocks*p.rowBytes], act[:blocks*p.aBytes]
		if p.row == nil {
			copy(dst, act)
			return
		}
		p.row(&dst[0], &act[0], blocks)
	}
}

func (p *prepared) mulRow(dst []float32, w []byte, stride int, row []byte, n int) {
	blocks := n / p.elements
	if blocks == 0 || len(dst) == 0 {
		clear(dst)
		return
	}
	w, row = w[:(len(dst)-1)*stride+blocks*p.wBytes], row[:blocks*p.rowBytes]
	p.mul(&dst[0], &w[0], stride, len(dst), &row[0], blocks)
}

// rowMemory is for callers of MatVec, which takes rows that are not prepared.
var rowMemory = sync.Pool{New: func() any { return new([]byte) }}

// matVec prepares the row in each call.
func matVecPrepared(m *MatMul) MatVecFunc {
	return func(dst []float32, w []byte, stride int, act []byte, n int) {
		row := rowMemory.Get().(*[]byte)
		if size := m.RowBytes(n); len(*row) < size {
			*row = make([]byte, size)
		}
		m.PrepareRow(*row, act, n)
		m.MulRow(dst, w, stride, *row, n)
		rowMemory.Put(row)
	}
}

func matMulOf(p *prepared, t *tiled) *MatMul {
	return &MatMul{
		Step:     t.elements,
		RowBytes: p.bytes, PrepareRow: p.prepare, MulRow: p.mulRow,
		Tokens: tileTokens, TileBytes: t.tileBytes, PrepareTile: t.prepareTile, Mul: t.mul, ScratchBytes: t.scratchBytes,
	}
}
