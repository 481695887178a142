package cpu

import "sync/atomic"

// spinLimit bounds how many times a thread looks for work, or for the end of
// work, before it sleeps: some fifty microseconds, more than lies between two nodes
// of a decode step. Waking a sleeper costs about as much, and there are hundreds of
// nodes.
const spinLimit = 1 << 17

// A pool runs a function over numbered chunks on a fixed set of threads. The
// caller of run is thread 0. Each thread has a run of neighbouring chunks, which it
// takes in order, so that it reads one stream of memory; who is through with them
// helps the others. A chunk must not care which thread runs it, other than for
// scratch memory. run is for one caller at a time and allocates nothing.
type pool struct {
	threads int
	spin    int
	workers []*worker

	// The job at hand, written before epoch is raised.
	fn   func(thread, chunk int)
	part []part // of each thread

	epoch   atomic.Uint64 // raised once a job
	pending atomic.Int32  // workers that have not finished the job, and the caller until it sleeps on done
	done    chan struct{}
	closing bool

	// Of tests: called by a worker that has counted itself out, before it does what
	// follows from the count.
	late func()
}

// A part is a thread's chunks.
type part struct {
	next atomic.Int64
	end  int64
	_    [48]byte // a cache line of its own
}

type worker struct {
	asleep atomic.Bool
	wake   chan struct{}
}

func newPool(threads, spin int) *pool {
	p := &pool{threads: threads, spin: spin, part: make([]part, threads), done: make(chan struct{}, 1)}
	for i := 1; i < threads; i++ {
		w := &worker{wake: make(chan struct{}, 1)}
		p.workers = append(p.workers, w)
		go p.serve(w, i)
	}
	return p
}

// run calls fn(thread, chunk) once for every chunk in 0..chunks-1 and returns
// when all calls have.
func (p *pool) run(chunks int, fn func(thread, chunk int)) {
	if len(p.workers) == 0 || chunks <= 1 {
		for i := range chunks {
			fn(0, i)
		}
		return
	}
	for i := range p.part {
		p.part[i].next.Store(int64(chunks * i / p.threads))
		p.part[i].end = int64(chunks * (i + 1) / p.threads)
	}
	p.start(fn)
}

// runParts is like run; thread t has chunks starts[t] to starts[t+1]-1.
func (p *pool) runParts(starts []int, fn func(thread, chunk int)) {
	if len(p.workers) == 0 {
		for i := range starts[len(starts)-1] {
			fn(0, i)
		}
		return
	}
	for i := range p.part {
		p.part[i].next.Store(int64(starts[i]))
		p.part[i].end = int64(starts[i+1])
	}
	p.start(fn)
}

func (p *pool) start(fn func(thread, chunk int)) {
	p.fn = fn
	p.signal()
	p.work(0)
	p.wait()
	p.fn = nil
}

// signal starts the workers on the job at hand.
func (p *pool) signal() {
	p.pending.Store(int32(len(p.workers)) + 1)
	p.epoch.Add(1)
	for _, w := range p.workers {
		if w.asleep.CompareAndSwap(true, false) {
			w.wake <- struct{}{}
		}
	}
}

// work takes the thread's own chunks, then those that others have left.
func (p *pool) work(thread int) {
	for i := range p.part {
		q := &p.part[(thread+i)%len(p.part)]
		for {
			chunk := q.next.Add(1) - 1
			if chunk >= q.end {
				break
			}
			p.fn(thread, int(chunk))
		}
	}
}

// wait returns when no worker has a part of the job left. One count decides who
// ends the job: a worker brings it to zero only after the caller gave up its own
// share and sleeps, so that no worker can wake the caller of a later job.
func (p *pool) wait() {
	for range p.spin {
		if p.pending.Load() == 1 {
			return
		}
	}
	if p.pending.Add(-1) > 0 {
		<-p.done
	}
}

// serve is a worker's life: wait for the next epoch, work, report.
func (p *pool) serve(w *worker, thread int) {
	for last := uint64(0); ; last++ {
		p.await(w, last)
		if p.closing {
			return
		}
		p.work(thread)
		p.report()
	}
}

// report is a worker's end of the job. From its count on, the caller may be at a
// later job: nothing but the count's own value may decide whether to wake it.
func (p *pool) report() {
	left := p.pending.Add(-1)
	if p.late != nil {
		p.late()
	}
	if left == 0 {
		p.done <- struct{}{}
	}
}

// await returns once the epoch is past last. A wake-up alone says nothing: a caller
// that was held up between raising the epoch and looking for sleepers finds one that
// has already done the job.
func (p *pool) await(w *worker, last uint64) {
	for {
		for range p.spin {
			if p.epoch.Load() != last {
				return
			}
		}
		w.asleep.Store(true)
		if p.epoch.Load() != last && w.asleep.CompareAndSwap(true, false) {
			return
		}
		<-w.wake // sent by whoever cleared the flag
		if p.epoch.Load() != last {
			return
		}
	}
}

// close ends the workers. run works on, on the caller alone.
func (p *pool) close() {
	if len(p.workers) == 0 {
		return
	}
	p.closing = true
	p.signal()
	p.workers = nil
}
