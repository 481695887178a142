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

// Read is the rate of a read loop by itself, in bytes a second.
func Read(threads, size int) float64 {
	l := NewReadLoop(threads, size)
	l.Round() // brings the buffer into memory
	var times []time.Duration
	for range rounds {
		start := time.Now()
		l.Round()
		times = append(times, max(time.Since(start), 1))
	}
	return l.Rate(times)
}
