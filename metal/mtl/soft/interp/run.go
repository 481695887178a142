// Package interp executes the IR of a kernel 32 lanes at a time: the core of the
// software Metal device.
//
// [Decode] turns a verified ir.Func into a [Program] once; [Program.Run] executes
// a [Launch] of it on bound memory. Threadgroups run in parallel, each on one
// goroutine; the simdgroups of a threadgroup run one after another and change at
// threadgroup barriers only. Results, counters and findings do not depend on the
// number of threads, for kernels without data races.
//
// How it works. Values that are the same in all active lanes are scalars and
// computed once; the others are vectors of 32 lanes. Code is straight except at
// region boundaries, where instructions update the mask of active lanes: in
// between, inactive lanes compute garbage that nobody sees, for only merges,
// memory and collectives look at the mask. Code never runs with an empty mask.
// All state of a simdgroup is in its frame, so that it stops at a barrier inside
// any nesting by returning.
//
// Without a sanitizer another form of the program runs, decoded at first use, whose
// loads are steps of straight code too. A load that misses its object stops the
// steps, is done in Go as it is with a sanitizer, and the steps go on. Results and
// counters are the same.
//
// With a sanitizer, a mask of poisoned lanes shadows each value; it is computed
// only from the moment when a value is undefined.
//
// It validates nothing about a launch that a device would refuse; the device
// does. Bounds are checked always: a read outside gives 0, a write is dropped.
package interp

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/lane"
	"minfer/metal/mtl/soft/mem"
	"minfer/metal/mtl/soft/san"
)

// worker runs threadgroups on one goroutine.
type worker struct {
	p    *Program
	l    *Launch
	grid shape
	objs []object
	sgs  []simdgroup
	tg   []byte // threadgroup memory
	cnt  Counters
	san  *san.Worker
	stop *atomic.Bool

	at   [3]int // the threadgroup that runs
	size [3]int

	// Scratch.
	rng    lane.Range
	access san.Access
	offs   [32]uint64
	signed [32]int64
	poison [san.MaxElems]uint32
	bools  [san.MaxElems][32]uint32
}

// Run executes a launch. It ends early, with the context's error, when the
// context is done.
func (p *Program) Run(ctx context.Context, l *Launch) (Counters, error) {
	if err := p.check(l); err != nil {
		return Counters{}, err
	}
	if err := ctx.Err(); err != nil {
		return Counters{}, err
	}
	if l.San == nil && p.fast != nil {
		var err error
		if p, err = p.fast(); err != nil {
			return Counters{}, err
		}
	}
	g := l.shape()
	total := g.groups[0] * g.groups[1] * g.groups[2]
	threads := min(l.Threads, total)
	if p.ordered || l.San != nil && l.San.Ordered() {
		threads = 1
	}
	if threads > 1 && p.cost(l, total) < worthThreads {
		threads = 1
	}
	stop := l.Stop
	if stop == nil {
		stop = new(atomic.Bool)
		defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	}

	order := l.order(total)
	workers := make([]*worker, threads)
	for i := range workers {
		workers[i] = p.worker(l, g, i, stop)
	}
	// Threadgroups are handed out one by one; a worker's share does not matter.
	var next atomic.Int64
	var wg sync.WaitGroup
	var fault atomic.Pointer[FaultError]
	work := func(w *worker) {
		n := 0
		defer func() {
			if r := recover(); r != nil {
				fault.CompareAndSwap(nil, &FaultError{Func: p.f.Name, Threadgroup: order(n), Value: r})
				stop.Store(true)
			}
		}()
		for !stop.Load() {
			if n = int(next.Add(1)) - 1; n >= total {
				n = 0
				return
			}
			w.threadgroup(order(n))
		}
	}
	for _, w := range workers[1:] {
		wg.Go(func() { work(w) })
	}
	work(workers[0])
	wg.Wait()
	var sum Counters
	for _, w := range workers {
		sum.add(&w.cnt)
		for i := range w.sgs {
			f := w.sgs[i].frame
			p.frames.Put(&f)
		}
	}
	if f := fault.Load(); f != nil {
		return sum, f
	}
	if sum.Simdgroups > 0 {
		p.perSimdgroup.Store(sum.Instructions/sum.Simdgroups + 1)
	}
	for _, w := range workers {
		p.keep(w)
	}
	if err := ctx.Err(); err != nil && stop.Load() {
		return sum, err
	}
	return sum, nil
}

// worthThreads is the number of instructions from which on a launch is worth the
// wake-up of another thread: some tens of microseconds.
const worthThreads = 16 << 10

// cost guesses the instructions of a launch from the last one; the first is large.
func (p *Program) cost(l *Launch, groups int) int64 {
	per := p.perSimdgroup.Load()
	if per == 0 {
		return worthThreads
	}
	sgs := int64(groups) * int64((l.Threadgroup[0]*l.Threadgroup[1]*l.Threadgroup[2]+31)/32)
	if sgs > worthThreads {
		return sgs
	}
	return sgs * min(per, worthThreads)
}

// FaultError is a panic of the interpreter itself: a mistake in this package, not
// in the kernel. It is an error so that the process goes on.
type FaultError struct {
	Func        string
	Threadgroup int // its linear index, where known
	Value       any // of the panic
}

// Error is one line.
func (e *FaultError) Error() string {
	return fmt.Sprintf("the interpreter failed in kernel %s, threadgroup %d: %v", e.Func, e.Threadgroup, e.Value)
}

// check looks at what Run relies on for safety.
func (p *Program) check(l *Launch) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("kernel %s: launch: %s", p.f.Name, fmt.Sprintf(format, args...))
	}
	if len(l.Windows) != len(p.f.Params) || len(l.ThreadgroupBytes) != len(p.f.Params) {
		return bad("%d windows and %d threadgroup sizes, expected %d of each", len(l.Windows), len(l.ThreadgroupBytes), len(p.f.Params))
	}
	for i, x := range p.f.Params {
		w := &l.Windows[i]
		switch {
		case x.Kind == ir.ThreadgroupParam && l.ThreadgroupBytes[i] < 0:
			return bad("argument %s has %d bytes of threadgroup memory", x.Name, l.ThreadgroupBytes[i])
		case x.Kind == ir.BufferParam && w.Buffer != nil && (w.Offset < 0 || w.Length < 0 || w.Offset > len(w.Buffer.Data)-w.Length):
			return bad("argument %s is bound to bytes %d to %d of a buffer of %d", x.Name, w.Offset, w.Offset+w.Length, len(w.Buffer.Data))
		}
	}
	n := 1
	for i := range 3 {
		if l.Grid[i] < 1 || l.Threadgroup[i] < 1 {
			return bad("grid %v, threadgroup %v, expected at least 1 in each direction", l.Grid, l.Threadgroup)
		}
		if l.Threadgroup[i] > 1024 || l.Grid[i] > 1<<31-1 {
			return bad("grid %v, threadgroup %v are too large", l.Grid, l.Threadgroup)
		}
		n *= l.Threadgroup[i]
	}
	if n > 1024 {
		return bad("%d threads in a threadgroup, expected at most 1024", n)
	}
	if l.Threads < 1 {
		return bad("%d threads of the host", l.Threads)
	}
	return nil
}

// order maps a turn to a threadgroup's number.
func (l *Launch) order(total int) func(int) int {
	switch {
	case l.Seed != 0 && total > 1:
		// A bijection on [0, total): multiply by a number without a common factor and
		// add.
		r := rand.New(rand.NewPCG(l.Seed, 1))
		mul := 1 + r.IntN(total)
		for gcd(mul, total) != 1 {
			mul++
		}
		add := r.IntN(total)
		return func(n int) int {
			hi, lo := bits.Mul64(uint64(n), uint64(mul))
			_, rem := bits.Div64(hi, lo, uint64(total))
			return int((rem + uint64(add)) % uint64(total))
		}
	case l.Reverse:
		return func(n int) int { return total - 1 - n }
	}
	return func(n int) int { return n }
}

// keep takes a worker back for another launch. Those of a sanitizer start fresh.
func (p *Program) keep(w *worker) {
	if w.san != nil {
		return
	}
	clear(w.objs)
	w.l, w.stop = nil, nil
	p.idle.Put(w)
}

// worker gives a worker that is ready for the launch.
func (p *Program) worker(l *Launch, g shape, index int, stop *atomic.Bool) *worker {
	w := &worker{p: p}
	if l.San != nil {
		w.san = l.San.Worker(index)
	} else if old, ok := p.idle.Get().(*worker); ok {
		w = old
	}
	w.l, w.grid, w.stop, w.cnt = l, g, stop, Counters{}
	f := p.f
	w.objs = append(slices.Grow(w.objs[:0], 1+len(f.Params)+len(f.Statics)+len(f.Allocas)+len(f.Tables)), object{ptr: unsafe.Pointer(&zeroLanes)})
	sanOf := func(list []*san.Object, i int) *san.Object {
		if i < len(list) {
			return list[i]
		}
		return nil
	}
	var params, statics, allocas, tables []*san.Object
	if l.San != nil {
		params, statics, allocas, tables = l.San.Params, l.San.Statics, l.San.Allocas, l.San.Tables
	}
	// Threadgroup memory: arguments at multiples of 16, then variables.
	bytes := 0
	for i, x := range f.Params {
		if x.Kind == ir.ThreadgroupParam {
			bytes += (l.ThreadgroupBytes[i] + 15) &^ 15
		}
	}
	if n := bytes + p.staticBytes + 64; n <= cap(w.tg) {
		w.tg = w.tg[:n]
	} else {
		w.tg = mem.Aligned(n)
	}
	tg := unsafe.Pointer(unsafe.SliceData(w.tg))
	at := tg
	for i, x := range f.Params {
		o := object{ptr: unsafe.Pointer(&zeroLanes), san: sanOf(params, i)}
		if x.Kind == ir.ThreadgroupParam {
			o.ptr, o.size = at, int64(l.ThreadgroupBytes[i])
			at = unsafe.Add(at, (l.ThreadgroupBytes[i]+15)&^15)
		} else if b := l.Windows[i]; b.Buffer != nil && b.Length > 0 {
			d := b.Bytes()
			o.ptr, o.size = unsafe.Pointer(unsafe.SliceData(d)), int64(len(d))
			// A buffer starts at an aligned address on any device, wherever the host keeps
			// it.
			o.align = int64(b.Offset & 63)
		}
		w.objs = append(w.objs, o)
	}
	for i, x := range f.Statics {
		w.objs = append(w.objs, object{ptr: unsafe.Add(tg, bytes+p.statics[i]), size: int64(x.Size), san: sanOf(statics, i)})
	}
	for i, x := range f.Allocas {
		w.objs = append(w.objs, object{ptr: unsafe.Pointer(&zeroLanes), size: int64(x.Size), private: true, word: p.allocas[i], san: sanOf(allocas, i)})
	}
	for i, x := range f.Tables {
		o := object{ptr: unsafe.Pointer(&zeroLanes), size: int64(len(x.Data)), san: sanOf(tables, i)}
		if len(x.Data) > 0 {
			o.ptr = unsafe.Pointer(unsafe.SliceData(x.Data))
		}
		w.objs = append(w.objs, o)
	}
	n := (g.tg[0]*g.tg[1]*g.tg[2] + 31) / 32
	for len(w.sgs) < n {
		w.sgs = append(w.sgs, p.newSimdgroup(len(w.sgs), w.san != nil))
	}
	for i := range w.sgs[:n] {
		for _, o := range p.slots {
			*w.sgs[i].u64(o.off) = uint64(uintptr(w.objs[o.obj].ptr))
			*w.sgs[i].u64(o.off + 8) = uint64(w.objs[o.obj].size)
		}
	}
	return w
}

func (p *Program) newSimdgroup(index int, poison bool) simdgroup {
	s := simdgroup{index: index, frame: mem.Aligned(p.frame), private: make([]byte, p.allocaWords*128)}
	s.base = unsafe.Pointer(unsafe.SliceData(s.frame))
	if poison {
		s.shadow = mem.Aligned((p.frame/2 + 63) &^ 63)
		s.poisons = unsafe.Pointer(unsafe.SliceData(s.shadow))
	}
	for _, c := range p.consts {
		switch c.kind {
		case cScalar:
			*s.u64(c.off) = c.bits
		case cVec:
			lane.Fill32(s.vec(c.off), uint32(c.bits))
		default:
			lane.Fill64(s.wide(c.off), c.bits)
		}
	}
	return s
}

// threadgroup runs the n-th threadgroup of the grid.
func (w *worker) threadgroup(n int) {
	w.at = w.grid.at(n)
	w.size = w.grid.size(w.at)
	threads := w.size[0] * w.size[1] * w.size[2]
	count := (threads + 31) / 32
	w.cnt.Threadgroups++
	w.cnt.Simdgroups += int64(count)
	sgs := w.sgs[:count]
	clear(w.tg)
	for i := range sgs {
		s := &sgs[i]
		s.pc, s.state = 0, running
		s.exists = ^uint32(0)
		if rest := threads - 32*i; rest < 32 {
			s.exists = 1<<rest - 1
		}
		s.mask, s.live = s.exists, s.exists
		if s.poisoned {
			s.poisoned = false
			clear(s.shadow)
		}
		clear(s.private)
	}
	if w.san != nil {
		w.san.BeginGroup(n, threads, count)
		defer w.san.EndGroup()
	}
	var rnd *rand.Rand
	if w.l.Seed != 0 {
		rnd = rand.New(rand.NewPCG(w.l.Seed, uint64(n)+2))
	}
	for {
		var random []int
		if rnd != nil {
			random = rnd.Perm(count)
		}
		for i := range count {
			switch {
			case random != nil:
				i = random[i]
			case w.l.Reverse:
				i = count - 1 - i
			}
			if s := &sgs[i]; s.state == running {
				s.run(w)
				if s.state == stopped {
					return
				}
			}
		}
		if !w.barrier(sgs) {
			return
		}
	}
}

// barrier is where no simdgroup can run on: all that have not ended wait. It is
// false when the threadgroup is over.
func (w *worker) barrier(sgs []simdgroup) bool {
	var first *simdgroup
	for i := range sgs {
		if sgs[i].state == atBarrier {
			first = &sgs[i]
			break
		}
	}
	if first == nil {
		return false
	}
	at := first.pc - 1
	in := &w.p.code[at]
	if w.san != nil {
		diverged := false
		for i := range sgs {
			s := &sgs[i]
			switch {
			case s.state == ended:
				diverged = true
				w.san.BarrierDivergence(i, w.p.pos[at], 0, s.exists, true)
			case s.pc-1 != at:
				diverged = true
				w.san.BarrierDivergence(i, w.p.pos[at], w.p.pos[s.pc-1], s.mask, false)
			case s.mask != s.exists:
				diverged = true
				w.san.BarrierDivergence(i, w.p.pos[at], 0, s.exists&^s.mask, s.mask == s.live)
			}
		}
		w.san.Barrier(ir.MemFlags(in.x))
		if diverged {
			return false
		}
	}
	for i := range sgs {
		if sgs[i].state == atBarrier {
			sgs[i].state = running
		}
	}
	return true
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
