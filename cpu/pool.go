package cpu

import "sync/atomic"

// spinLimit bounds how many times a thread looks for work, or for the end of
// work, before it sleeps: a few milliseconds, more than lies between two tokens, so
// that nobody sleeps while text is made. Waking a sleeper takes as long as a small
// product does, on a virtual machine longer, and there are hundreds of nodes: who has
// slept through one is late for the next, and the others sleep in turn.
const spinLimit = 1 << 22

// A pool runs a function over numbered chunks on a fixed set of threads. The
// caller of run is thread 0. Each thread has a run of neighbouring chunks, which it
// takes in order, so that it reads one stream of memory; who is through with them
// helps the others. A worker that comes when no chunk is left takes no part, and
// nobody waits for it. A chunk must not care which thread runs it, other than for
// scratch memory. run is for one caller at a time and allocates nothing.
type pool struct {
	threads int
	spin    int
	workers []*worker

	// The job at hand, written before its number is.
	fn   func(thread, chunk int)
	part []part // of each thread

	job     atomic.Uint64 // see jobNumber
	done    chan struct{} // receives from the last worker of a job that its caller awaits asleep
	closing bool

	prefetch func([]byte) // nil: threads wait idly
	upcoming [][]byte     // what each thread reads ahead when it has no work; written before a job's number is
	turn     uint64       // raised when that changes
	ahead    reader       // of the caller

	// Of tests: called by a worker that has counted itself out, before it does what
	// follows from the count.
	late func()
}

// The state of the job at hand in one word: how many workers take part, whether it is
// over for those who don't yet, whether the caller sleeps until they are through, and
// a number that is another for each job.
const (
	jobWorkers = jobOver - 1
	jobOver    = 1 << 16
	jobAwaited = 1 << 17
	jobNumber  = 1 << 32
)

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

func newPool(threads, spin int, prefetch func([]byte)) *pool {
	p := &pool{
		threads: threads, spin: spin, part: make([]part, threads), done: make(chan struct{}, 1),
		prefetch: prefetch, upcoming: make([][]byte, threads),
	}
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
	p.job.Store((p.job.Load()/jobNumber + 1) * jobNumber)
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

// wait returns when no chunk of the job is being worked on. One word decides who ends
// the job: after the caller has said that it sleeps, the worker that leaves last wakes
// it, and since nobody joins a job that is over, that happens once.
func (p *pool) wait() {
	if p.job.Or(jobOver)&jobWorkers == 0 {
		return
	}
	p.ahead.take(p, 0)
	for range p.spin {
		if p.job.Load()&jobWorkers == 0 {
			return
		}
		p.ahead.some(p)
	}
	if p.job.Or(jobAwaited)&jobWorkers != 0 {
		<-p.done
	}
}

// serve is a worker's life: wait for a job, work, report.
func (p *pool) serve(w *worker, thread int) {
	var ahead reader
	for last := uint64(0); ; {
		last = p.await(w, last, &ahead)
		if p.closing {
			return
		}
		p.work(thread)
		ahead.take(p, thread) // not later: the caller may be at the next job
		p.report()
	}
}

// join makes the worker take part in the job at hand, if that is not its last one and
// not over.
func (p *pool) join(last uint64) (number uint64, ok bool) {
	job := p.job.Load()
	if job/jobNumber == last || job&jobOver != 0 {
		return 0, false
	}
	return job / jobNumber, p.job.CompareAndSwap(job, job+1)
}

// report is a worker's end of the job. From its count on, the caller may be at a
// later job: nothing but the count's own value may decide whether to wake it.
func (p *pool) report() {
	left := p.job.Add(^uint64(0))
	if p.late != nil {
		p.late()
	}
	if left&jobWorkers == 0 && left&jobAwaited != 0 {
		p.done <- struct{}{}
	}
}

// await returns once the worker takes part in a job other than its last. A wake-up
// alone says nothing: the others may have done the job already.
func (p *pool) await(w *worker, last uint64, ahead *reader) uint64 {
	for {
		for range p.spin + 1 {
			if number, ok := p.join(last); ok {
				return number
			}
			ahead.some(p)
		}
		w.asleep.Store(true)
		if job := p.job.Load(); job/jobNumber != last && job&jobOver == 0 && w.asleep.CompareAndSwap(true, false) {
			continue
		}
		<-w.wake // sent by whoever cleared the flag
	}
}

// close ends the workers and lets go of what they read ahead. run works on, on the
// caller alone.
func (p *pool) close() {
	if len(p.workers) == 0 {
		return
	}
	p.closing = true
	clear(p.upcoming)
	p.ahead.left = nil
	p.signal()
	p.workers = nil
}
