package interp

import (
	"sync/atomic"

	"minfer/metal/mtl/soft/mem"
	"minfer/metal/mtl/soft/san"
)

// Launch is one dispatch of a [Program]. The caller has validated it against the
// limits; Run checks only what it relies on.
type Launch struct {
	// Grid counts threads where Ragged (dispatchThreads: threadgroups at the edges
	// may be smaller), threadgroups otherwise. Components are at least 1.
	Grid   [3]int
	Ragged bool
	// Threadgroup is the number of threads of a threadgroup.
	Threadgroup [3]int

	// Windows and ThreadgroupBytes have an entry for each of the function's
	// Params: the bound memory of a BufferParam, the size of a ThreadgroupParam.
	Windows          []mem.Window
	ThreadgroupBytes []int

	// San watches, where not nil; it was begun with at least Threads workers and is
	// ended by the caller. Out-of-bounds accesses never touch memory, with
	// or without it.
	San *san.Run
	// Seed, if not 0, gives threadgroups and the simdgroups between barriers a
	// random legal order instead of ascending.
	Seed uint64
	// Reverse runs threadgroups and simdgroups in descending order.
	Reverse bool
	// Stop, where not nil, ends the launch when it is set: the caller sets it when
	// the context of Run is done, which saves Run to watch it.
	Stop *atomic.Bool
	// Threads is the number of threadgroups that run at a time, at least 1;
	// small launches run on one.
	// Kernels whose atomics' results depend on the order run on one.
	Threads int
}

// Counters say what a dispatch did. They do not depend on Threads.
type Counters struct {
	Threadgroups int64
	Simdgroups   int64
	// Instructions counts IR instructions, each once for a simdgroup that executes
	// it.
	Instructions int64
	// DeviceRead and DeviceWritten are bytes of device and constant buffers that
	// loads and stores asked for: once for each active lane, once for the
	// simdgroup where the address is the same in all lanes.
	DeviceRead, DeviceWritten int64
	// Barriers counts threadgroup_barriers, each once for a simdgroup.
	Barriers int64
	// Divergent counts branches that some active lanes took and some did not.
	Divergent int64
}

func (c *Counters) add(d *Counters) {
	c.Threadgroups += d.Threadgroups
	c.Simdgroups += d.Simdgroups
	c.Instructions += d.Instructions
	c.DeviceRead += d.DeviceRead
	c.DeviceWritten += d.DeviceWritten
	c.Barriers += d.Barriers
	c.Divergent += d.Divergent
}
