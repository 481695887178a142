package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
)

// Heads together have the bits of heads one by one: any number of heads, windows of
// less and more than a block, caches that end where memory ends.
func TestAttention(t *testing.T) {
	eachLevel(t, func(t *testing.T, tab, ref *Table) {
		at := tab.Attention
		if at == nil {
			return
		}
		rng := rand.New(rand.NewPCG(1, 13))
		for _, hd := range []int{at.Step, 2 * at.Step, 128} {
			for _, heads := range []int{1, 2, 3, 4, 5, 6, 7, 8, 11} {
				for _, half := range []bool{false, true} {
					for _, n := range []int{1, 1 + rng.IntN(100), 256 * rng.IntN(2), 257 + rng.IntN(400)} {
						testAttention(t, tab, ref, hd, heads, max(n, 1), half, rng)
					}
				}
			}
		}
	})
}

func testAttention(t *testing.T, tab, ref *Table, hd, heads, n int, half bool, rng *rand.Rand) {
	at, typ, av := tab.Attention, gguf.F32, ref.AttnVF32
	if half {
		typ, av = gguf.F16, ref.AttnVF16
	}
	id := fmt.Sprintf("hd=%d heads=%d n=%d half=%v", hd, heads, n, half)
	stride := typ.RowBytes(hd + 6)
	cache := func() []byte {
		b := make([]byte, (n-1)*stride+typ.RowBytes(hd))
		for j := range n {
			ref.Quantize[typ](b[j*stride:][:typ.RowBytes(hd)], normal(rng, hd, 1))
		}
		return placed(t, b, n%2 == 0, 4*rng.IntN(8))
	}
	k, q := cache(), normal(rng, heads*hd, 1)
	rounded := make([]float32, len(q))
	copy(rounded, q)
	if half {
		at.Round(rounded)
	}
	ds := n + 16
	got, intact := output(t, (heads-1)*ds+n, false)
	scratch, clean := output(t, at.ScoreScratch(hd), false)
	at.Scores(got, ds, rounded, heads, k, stride, half, hd, n, scratch)
	for h := range heads {
		act := make([]byte, typ.RowBytes(hd))
		ref.Quantize[typ](act, q[h*hd:(h+1)*hd])
		want := make([]float32, n)
		ref.Weights[typ].MatVec(want, k, stride, act, hd)
		sameBits(t, want, got[h*ds:h*ds+n], "scores of head %d, %s", h, id)
	}
	require.True(t, intact() && clean(), id)

	v, ps := cache(), (n+15)&^15
	p := normal(rng, heads*ps, 0.01)
	rounded = make([]float32, len(p))
	copy(rounded, p)
	if half {
		at.Round(rounded)
	}
	got, intact = output(t, (heads-1)*hd+hd, false)
	scratch, clean = output(t, at.ValueScratch(heads), false)
	for c := 0; c < hd; c += at.Channels {
		at.Values(got[c:], hd, v[typ.RowBytes(c):], stride, half, rounded, ps, heads, n, scratch)
	}
	for h := range heads {
		want := make([]float32, hd)
		av(want, v, stride, p[h*ps:], n, make([]float32, tab.Lanes*hd))
		sameBits(t, want, got[h*hd:(h+1)*hd], "values of head %d, %s", h, id)
	}
	require.True(t, intact() && clean(), id)
}
