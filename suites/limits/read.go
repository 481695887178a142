package limits

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"
	"unsafe"
)

// ReadLoop is the limit of decode: every thread reads its own part of a buffer
// that no cache holds, and does nothing else. Which loop reads fastest, with what
// width of loads and with or without prefetching, depends on the processor and on
// the number of threads, so a round times all of them, and the one that is fastest in
// the median of its rounds counts.
type ReadLoop struct {
	data    []byte
	threads int
	loops   []readLoop
	rates   [][]float64 // of each loop's rounds
}

// A readLoop gives the exclusive or of the 64-bit words of n turns of turnBytes.
type readLoop func(p *byte, n int) uint64

const turnBytes = 512

// NewReadLoop makes a loop over a buffer of about that many bytes, in which each
// thread has as many.
func NewReadLoop(threads, size int) *ReadLoop {
	data := make([]byte, max(size/threads/turnBytes, 1)*turnBytes*threads)
	for i := range data { // memory that was never written may be one page of zeros
		data[i] = byte(i)
	}
	return NewReadLoopOf(threads, data)
}

// NewReadLoopOf makes a loop over memory that is there, but for less than a turn of
// each thread at its end.
func NewReadLoopOf(threads int, data []byte) *ReadLoop {
	turns := len(data) / turnBytes / threads
	loops := readLoops()
	return &ReadLoop{data: data[:turns*turnBytes*threads], threads: threads, loops: loops, rates: make([][]float64, len(loops))}
}

// Round reads the buffer a number of times with each loop. What it is the limit of
// should read about as much in a round: of short looks at a machine whose memory is
// others' too, the best are faster than anything that lasts.
func (l *ReadLoop) Round(passes int) {
	for i, loop := range l.loops {
		l.rates[i] = append(l.rates[i], l.rate(loop, passes))
	}
}

// Rate is the median of the fastest loop's rounds, in bytes a second; 0 before the first.
func (l *ReadLoop) Rate() float64 {
	best := 0.0
	for _, rates := range l.rates {
		if n := len(rates); n > 0 {
			r := slices.Sorted(slices.Values(rates))
			best = max(best, (r[(n-1)/2]+r[n/2])/2)
		}
	}
	return best
}

// Forget drops the rounds so far.
func (l *ReadLoop) Forget() { clear(l.rates) }

// rate reads the buffer some times with one loop.
func (l *ReadLoop) rate(loop readLoop, passes int) float64 {
	start := time.Now()
	l.read(loop, passes)
	return float64(len(l.data)*passes) / max(time.Since(start), 1).Seconds()
}

// read gives the exclusive or of what each thread found.
func (l *ReadLoop) read(loop readLoop, passes int) uint64 {
	part := len(l.data) / l.threads
	found := make([]uint64, l.threads)
	var wg sync.WaitGroup
	for t := range l.threads {
		wg.Go(func() {
			for range passes {
				if part > 0 {
					found[t] = loop(&l.data[t*part], part/turnBytes)
				}
			}
		})
	}
	wg.Wait()
	x := uint64(0)
	for _, f := range found {
		x ^= f
	}
	return x
}

// plainRead is the loop where there is no assembly for the processor.
func plainRead(p *byte, n int) uint64 {
	var a, b, c, d uint64
	for data := unsafe.Slice(p, n*turnBytes); len(data) >= 32; data = data[32:] {
		a ^= binary.LittleEndian.Uint64(data)
		b ^= binary.LittleEndian.Uint64(data[8:])
		c ^= binary.LittleEndian.Uint64(data[16:])
		d ^= binary.LittleEndian.Uint64(data[24:])
	}
	return a ^ b ^ c ^ d
}

// leastRead is what a timed loop reads at the least, so that starting threads does
// not count.
const leastRead = 1 << 26

// Read is the rate of reading a buffer of that many bytes again and again, in bytes a
// second: of memory for a large one, of the cache that holds it for a small one. The
// fastest round of the fastest loop counts.
func Read(threads, size int) float64 {
	l := NewReadLoop(threads, size)
	best := 0.0
	for range rounds {
		for _, loop := range l.loops {
			best = max(best, l.rate(loop, max(leastRead/len(l.data), 1)))
		}
	}
	return best
}
