package kernel

import (
	"math"
	"unsafe"
)

//go:generate go run ./gen -family attn512 -out attn_avx512_amd64.s -stubs attn_avx512_amd64.go

type attnHeadsAsm func(acc *float32, v *byte, stride int, p *float32, pStride, cells int)

// attention512 is one level's kernels.
type attention512 struct {
	lanes   int
	mv      matVecAsm
	heads   [2][8]attnHeadsAsm // of float32 and float16 caches, by number of heads
	combine func(dst, acc *float32, rowBytes int, pad float32)
}

const (
	attnChannels   = 32
	attnScoreCells = 64 // widened at a time
)

var attentionH = attention512{32, matVecF32H512, [2][8]attnHeadsAsm{
	{attnHeads1F32H512, attnHeads2F32H512, attnHeads3F32H512, attnHeads4F32H512, attnHeads5F32H512, attnHeads6F32H512, attnHeads7F32H512, attnHeads8F32H512},
	{attnHeads1F16H512, attnHeads2F16H512, attnHeads3F16H512, attnHeads4F16H512, attnHeads5F16H512, attnHeads6F16H512, attnHeads7F16H512, attnHeads8F16H512},
}, attnCombineH512}

var attentionZ = attention512{64, matVecF32Z512, [2][8]attnHeadsAsm{
	{attnHeads1F32Z512, attnHeads2F32Z512, attnHeads3F32Z512, attnHeads4F32Z512, attnHeads5F32Z512, attnHeads6F32Z512, attnHeads7F32Z512, attnHeads8F32Z512},
	{attnHeads1F16Z512, attnHeads2F16Z512, attnHeads3F16Z512, attnHeads4F16Z512, attnHeads5F16Z512, attnHeads6F16Z512, attnHeads7F16Z512, attnHeads8F16Z512},
}, attnCombineZ512}

func (a *attention512) kernels() *Attention {
	return &Attention{
		Step: a.lanes, Channels: attnChannels, Scores: a.scores, Values: a.values, Round: roundHalves,
		ScoreScratch: func(hd int) int { return attnScoreCells * hd },
		ValueScratch: func(heads int) int { return a.lanes * min(heads, 8) * attnChannels },
	}
}

func roundHalves(x []float32) { roundHalfZ512(at(x), len(x)/16) }

func (a *attention512) scores(dst []float32, dstStride int, q []float32, heads int, k []byte, stride int, half bool, hd, n int, scratch []float32) {
	if n == 0 {
		return
	}
	dst, q = dst[:(heads-1)*dstStride+n], q[:heads*hd]
	size := 4 * hd
	if half {
		size = 2 * hd
		scratch = scratch[:min(n, attnScoreCells)*hd]
	}
	k = k[:(n-1)*stride+size]
	for j := 0; j < n; j += attnScoreCells {
		cells := min(attnScoreCells, n-j)
		keys, step := &k[j*stride], stride
		if half {
			widenRowsF16Z512(&scratch[0], keys, stride, cells, hd/16)
			keys, step = (*byte)(unsafe.Pointer(&scratch[0])), 4*hd
		}
		for h := range heads {
			a.mv(&dst[h*dstStride+j], keys, step, cells, (*byte)(unsafe.Pointer(&q[h*hd])), hd/a.lanes)
		}
	}
}

// values adds the cells of a block with all heads, so that a block's values stay in
// the second-level cache while the residues pass over them.
func (a *attention512) values(dst []float32, dstStride int, v []byte, stride int, half bool, p []float32, pStride, heads, n int, scratch []float32) {
	kind, size := 0, 4
	if half {
		kind, size = 1, 2
	}
	v = v[:(n-1)*stride+size*attnChannels]
	p, dst = p[:(heads-1)*pStride+n], dst[:(heads-1)*dstStride+attnChannels]
	var pad float32
	if n%256 == 0 {
		pad = float32(math.Copysign(0, -1))
	}
	block := 8 * a.lanes
	for h := 0; h < heads; h += 8 {
		m := min(8, heads-h)
		acc := scratch[:a.lanes*m*attnChannels]
		clear(acc)
		for j := 0; j < n; j += block {
			a.heads[kind][m-1](&acc[0], &v[j*stride], stride, &p[h*pStride+j], pStride, min(block, n-j))
		}
		for i := range m {
			a.combine(&dst[(h+i)*dstStride], &acc[i*attnChannels], 4*m*attnChannels, pad)
		}
	}
}
