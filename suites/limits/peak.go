package limits

import (
	"sync"
	"sync/atomic"
	"time"
)

// MultiplyAdds is how many multiply-adds of floats the processor makes a second on
// that many threads, in registers: the best of some rounds of at least the given
// time.
func MultiplyAdds(threads int, atLeast time.Duration) float64 {
	loop, perTurn := floatLoop()
	return peak(loop, perTurn, threads, atLeast)
}

// ByteMultiplyAdds is the same of bytes, which quantised types are multiplied as.
func ByteMultiplyAdds(threads int, atLeast time.Duration) float64 {
	loop, perTurn := byteLoop()
	return peak(loop, perTurn, threads, atLeast)
}

func peak(loop func(n int), perTurn, threads int, atLeast time.Duration) float64 {
	best := 0.0
	for turns, timed := 1<<10, 0; timed < rounds; {
		start := time.Now()
		var wg sync.WaitGroup
		for range threads {
			wg.Go(func() { loop(turns) })
		}
		wg.Wait()
		d := max(time.Since(start), 1)
		if d < atLeast && turns < 1<<40 {
			turns *= 2
			continue
		}
		timed++
		best = max(best, float64(threads)*float64(turns)*float64(perTurn)/d.Seconds())
	}
	return best
}

// plainAdds is the multiply-adds of a turn of plainLoop.
const plainAdds = 8

// sink keeps the compiler from leaving the loop out.
var sink atomic.Uint32

// plainLoop is the loop where there is no assembly for the processor.
func plainLoop(n int) {
	var a, b, c, d, e, f, g, h float32
	const x, y = 0.999, 0.001
	for range n {
		a, b, c, d = a*x+y, b*x+y, c*x+y, d*x+y
		e, f, g, h = e*x+y, f*x+y, g*x+y, h*x+y
	}
	sink.Store(uint32(a + b + c + d + e + f + g + h))
}
