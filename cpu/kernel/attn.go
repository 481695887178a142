package kernel

// An Attention holds kernels that do a token's heads of one KV head together, so
// that keys and values are read and widened once. The bits are those of MatVec with
// the cache's type, and of AttnVF32 and AttnVF16. Caches are float32, or float16
// where half is set; then queries and probabilities are rounded first, with Round.
type Attention struct {
	// Step is what a head's size must be a multiple of for Scores; Values takes
	// multiples of Channels.
	Step, Channels int
	// Scores computes dst[h*dstStride+j] = q[h*hd:] . K[j] for cells j = 0..n-1 and
	// each head h; k starts at the head's channel 0 in cell 0, stride bytes between
	// cells. scratch has ScoreScratch(hd) elements.
	Scores       func(dst []float32, dstStride int, q []float32, heads int, k []byte, stride int, half bool, hd, n int, scratch []float32)
	ScoreScratch func(hd int) int
	// Values computes dst[h*dstStride+c] = sum of p[h*pStride+j]*V[j][c] over cells
	// j = 0..n-1, n >= 1, for Channels channels c from the one where v starts. scratch
	// has ValueScratch(heads) elements.
	Values       func(dst []float32, dstStride int, v []byte, stride int, half bool, p []float32, pStride, heads, n int, scratch []float32)
	ValueScratch func(heads int) int
	// Round rounds to the nearest float16, len(x) a multiple of 16.
	Round func(x []float32)
}
