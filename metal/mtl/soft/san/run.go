package san

import "minfer/metal/msl/ir"

// Checker is the sanitizer of one command buffer.
type Checker struct {
	mode   Mode
	report *Report
}

// Options of a Checker.
type Options struct {
	// Source gives the text of a source line for reports, "" where unknown.
	Source func(file string, line int) string
	// Concurrent is false for an encoder that orders its dispatches.
	Concurrent bool
}

// New returns a checker of the given mode.
func New(mode Mode, o Options) *Checker {
	return &Checker{mode: mode, report: &Report{Mode: mode}}
}

// Mode is the checker's mode.
func (c *Checker) Mode() Mode { return c.mode }

// Report is what was found so far.
func (c *Checker) Report() *Report { return c.report }

// BeginInterval announces all dispatches up to the next memory barrier, so that
// only memory that one of them writes is watched.
func (c *Checker) BeginInterval(ds []*Dispatch) {}

// Begin starts a dispatch of the interval with so many workers.
func (c *Checker) Begin(d *Dispatch, workers int) *Run { return &Run{} }

// Finish checks outputs after the last interval.
func (c *Checker) Finish() {}

// Run is one dispatch under the sanitizer.
type Run struct {
	// Params are the objects by index in Func.Params: device and constant bindings
	// and threadgroup arguments. Statics and Allocas go by their index likewise.
	Params, Statics, Allocas []*Object
	// Threadgroup is the size of a threadgroup's memory: arguments, then variables,
	// each at its object's Base.
	Threadgroup int
}

// Ordered says that threadgroups must run in ascending order on one worker for
// findings not to depend on scheduling.
func (r *Run) Ordered() bool { return false }

// Worker returns the i-th worker's state.
func (r *Run) Worker(i int) *Worker { return &Worker{} }

// End merges the workers' findings and compares threadgroups, and dispatches of
// the interval.
func (r *Run) End() {}

// Worker watches the threadgroups that one goroutine executes.
type Worker struct{}

// BeginGroup starts a threadgroup: its linear index in the grid, and how many
// threads and simdgroups it has.
func (w *Worker) BeginGroup(group, threads, simdgroups int) {}

// EndGroup ends the threadgroup.
func (w *Worker) EndGroup() {}

// Access records an access and reports its races. Call it before a store takes
// effect, with out-of-bounds lanes removed from the mask, where Obj.Track is
// set. A simdgroup-matrix load or store is one Access for each element of the
// lane mapping.
func (w *Worker) Access(sg int, a *Access) {}

// Barrier is a threadgroup_barrier that all simdgroups have reached. Call it
// once for the threadgroup, diverged or not.
func (w *Worker) Barrier(flags ir.MemFlags) {}

// SgBarrier is a simdgroup_barrier of one simdgroup.
func (w *Worker) SgBarrier(sg int, flags ir.MemFlags) {}

// LoadPoison says which lanes of each loaded element read a byte that nobody
// wrote. It needs Obj.Poison. out has a.Count elements set.
func (w *Worker) LoadPoison(sg int, a *Access, out *[MaxElems]uint32) (any uint32) { return 0 }

// StorePoison marks the bytes of a store as written or, for the lanes in in, as
// still unwritten. in nil is all written. It needs Obj.Mark. A store of poison to
// device memory is reported by Uninitialized first and then counts as written.
func (w *Worker) StorePoison(sg int, a *Access, in *[MaxElems]uint32) {}

// Origin returns a name for poison that a load brought in, or that an
// uninitialised variable gave (obj nil). lane and off say which byte first.
func (w *Worker) Origin(obj *Object, pos ir.Pos, off int64) Origin { return 0 }

// Uninitialized reports that poison reached a use in the lanes of mask.
func (w *Worker) Uninitialized(sg int, pos ir.Pos, use Use, mask uint32, from Origin) {}

// OutOfBounds reports an access of size bytes of which the lanes in mask are not
// inside obj. off are the lanes' signed offsets. The access must not happen:
// reads give 0, writes are dropped.
func (w *Worker) OutOfBounds(sg int, a *Access, mask uint32, off *[Lanes]int64) {}

// NullAccess reports an access through a null pointer.
func (w *Worker) NullAccess(sg int, pos ir.Pos, kind Kind, mask uint32) {}

// Misaligned reports an access whose address is not a multiple of align.
func (w *Worker) Misaligned(sg int, a *Access, mask uint32, align int) {}

// BarrierDivergence reports a threadgroup_barrier at pos that not every thread
// reached: those of missing in simdgroup sg are elsewhere (ended, at another
// barrier, or masked off), at other where known (0 if not). Abandon the
// threadgroup afterwards: what it would do next is undefined, and findings would
// only be consequences.
func (w *Worker) BarrierDivergence(sg int, pos, other ir.Pos, missing uint32, ended bool) {}

// NonuniformSimd reports a simdgroup function under active lanes that leave out
// some of the live ones, or (operand true) an operand that must be the same in
// all lanes and is not.
func (w *Worker) NonuniformSimd(sg int, pos ir.Pos, active, live uint32, operand bool) {}
