// Package limits measures what a machine can do at the most, for rates to be put
// beside: how fast memory is read, and how many multiply-adds are made, by plain
// loops that do nothing else. On a processor these are [ReadLoop] and
// [MultiplyAdds]; on a Metal device two plain kernels, [Device].
package limits

import (
	"bytes"
	"slices"
	"sync"
	"time"
)

// ReadLoop is the limit of decode: every thread reads its own part of a buffer
// that no cache holds. It searches for a byte that is not there, since the
// standard library's search reads with the widest loads of the processor.
type ReadLoop struct {
	data    []byte
	threads int
}

// NewReadLoop makes a loop over a buffer of that many bytes.
func NewReadLoop(threads, size int) *ReadLoop {
	return &ReadLoop{data: bytes.Repeat([]byte{1}, size), threads: threads}
}

// Round reads the buffer once and gives the number of bytes read: all of the
// threads' equal parts, since no byte is 0.
func (l *ReadLoop) Round() int {
	size := len(l.data) / l.threads
	read := make([]int, l.threads)
	var wg sync.WaitGroup
	for t := range l.threads {
		part := l.data[t*size:][:size]
		wg.Go(func() {
			if read[t] = bytes.IndexByte(part, 0); read[t] < 0 {
				read[t] = size
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range read {
		total += n
	}
	return total
}

// Rate is the fastest round's, in bytes a second: a limit is what the machine
// can do.
func (l *ReadLoop) Rate(rounds []time.Duration) float64 {
	return float64(len(l.data)) / slices.Min(rounds).Seconds()
}

// rounds is how often a loop is timed; the fastest counts.
const rounds = 5

// leastRead is what a timed loop reads at the least, so that starting threads does
// not count.
const leastRead = 1 << 26

// Read is the rate of reading a buffer of that many bytes again and again, in bytes a
// second: of memory for a large one, of the cache that holds it for a small one.
func Read(threads, size int) float64 {
	l := NewReadLoop(threads, max(size, threads))
	l.Round() // brings the buffer into memory
	passes := max(leastRead/len(l.data), 1)
	best := 0.0
	for range rounds {
		start := time.Now()
		var wg sync.WaitGroup
		part := len(l.data) / threads
		for t := range threads {
			wg.Go(func() {
				for range passes {
					if bytes.IndexByte(l.data[t*part:][:part], 0) >= 0 {
						return
					}
				}
			})
		}
		wg.Wait()
		best = max(best, float64(part*threads*passes)/max(time.Since(start), 1).Seconds())
	}
	return best
}
