package lane

import "unsafe"

// Memory is a step on memory or across lanes. Such a step takes two places of a
// list: see [Access].
type Memory uint32

// The loads for each lane: of one element of 8 to 64 bits, of four of 16, of two or four of
// 32 that follow each other. Those that read once for all lanes. The sum of the active
// lanes, as [ReduceFAdd] makes it.
const (
	Read8 Memory = Memory(2*NumOps) + iota
	Read16
	Read32
	Read64
	Read16x4
	Read32x2
	Read32x4
	ReadOnce8
	ReadOnce16
	ReadOnce32
	ReadOnce64
	SumF

	numSteps = iota + 2*int(NumOps)
)

// Places of the frame that loads use beside their operands.
const (
	// ActiveMask has the mask of active lanes.
	ActiveMask = 8
	// Stopped is where a load that could not be done leaves the address of its second
	// place, see [Resume]; 0 before.
	Stopped = 16
)

// Access is the operands of a load: it reads at the start of the object + Disp + the
// scalar at Uniform + the lane's 64-bit offset at Varying. A load that misses the
// object in an active lane is not done.
type Access struct {
	Results          [4]uint32 // one for each element
	Uniform, Varying uint32
	Object           uint32 // place of a pointer and, 8 bytes on, a size
	Disp             int32
	// Bytes from there must lie in the object: as many as are read, and
	// at least 4 where a lane has its own element of 8 or 16 bits.
	Bytes uint32
	// Delta is the distance of the element from there; 0 for several elements.
	Delta uint32
}

// Steps makes the step of a load, or of a sum of the lanes at Varying.
func (m Memory) Steps(a *Access) [2]Step {
	more := Step{uint32(a.Disp), a.Bytes, a.Delta, a.Results[2], a.Results[3]}
	if m == Read16x4 || m == Read32x2 || m == Read32x4 {
		more.A = a.Results[1]
	}
	return [2]Step{{uint32(m), a.Results[0], a.Varying, a.Uniform, a.Object}, more}
}

// Resume tells which load of the steps from first on was not done, as the index of
// its first place from there, and makes the frame ready to go on; false where all
// steps ran.
func Resume(first *Step, base unsafe.Pointer) (int, bool) {
	p := (*uintptr)(unsafe.Add(base, Stopped))
	if *p == 0 {
		return 0, false
	}
	n := int((*p-uintptr(unsafe.Pointer(first)))/unsafe.Sizeof(Step{})) - 1
	*p = 0
	return n, true
}
