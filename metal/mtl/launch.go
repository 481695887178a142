package mtl

import (
	"fmt"
	"math"
)

// LaunchKind sorts refused launches, in the words of launch cases.
type LaunchKind string

// The kinds: InvalidLaunch breaks a limit or a rule of the API, TypeMismatch
// binds bytes or elements that do not fit the kernel's parameter.
const (
	InvalidLaunch LaunchKind = "invalid-launch"
	TypeMismatch  LaunchKind = "type-mismatch"
)

// LaunchError is a launch that was refused before it was recorded.
type LaunchError struct {
	Kind     LaunchKind
	Label    string // of the dispatch
	Kernel   string
	Argument string // the parameter's name, empty where the fault is of none
	Reason   string // what was found and what was expected
}

// Error is one line.
func (e *LaunchError) Error() string {
	where := fmt.Sprintf("metal: dispatch %q of kernel %s", e.Label, e.Kernel)
	if e.Argument != "" {
		where += ", argument " + e.Argument
	}
	return where + ": " + e.Reason
}

// CheckDispatch holds a launch against the rules that do not depend on the
// device: the grid, the bindings against the pipeline's arguments, and
// threadgroup memory. d.Pipeline is not nil. Its error is a *LaunchError.
//
// Bindings and threadgroup memory that the kernel has no argument for are
// legal, as they are in Metal: function constants remove arguments.
func CheckDispatch(l Limits, d *Dispatch) error {
	c := checker{l, d}
	if err := c.grid(); err != nil {
		return err
	}
	args := d.Pipeline.Arguments()
	if err := c.bindings(args); err != nil {
		return err
	}
	return c.threadgroupMemory(args)
}

type checker struct {
	l Limits
	d *Dispatch
}

func (c checker) refuse(kind LaunchKind, argument, format string, a ...any) error {
	return &LaunchError{Kind: kind, Label: c.d.Label, Kernel: c.d.Pipeline.Kernel(), Argument: argument, Reason: fmt.Sprintf(format, a...)}
}

func (c checker) invalid(format string, a ...any) error {
	return c.refuse(InvalidLaunch, "", format, a...)
}

// components is the extent by axis.
func (s Size) components() [3]int { return [3]int{s.X, s.Y, s.Z} }

func (c checker) grid() error {
	d := c.d
	none := Size{}
	if (d.Threadgroups == none) == (d.Threads == none) {
		return c.invalid("grid: threadgroups %v and threads %v: want exactly one of the two", d.Threadgroups, d.Threads)
	}
	grid, what, per := d.Threads.components(), "threads", [3]int{1, 1, 1}
	if d.Threads == none {
		grid, what, per = d.Threadgroups.components(), "threadgroups", d.ThreadsPerThreadgroup.components()
	}
	for i, n := range d.ThreadsPerThreadgroup.components() {
		if n < 1 {
			return c.invalid("threads_per_threadgroup %v: component %d is %d: want at least 1", d.ThreadsPerThreadgroup, i, n)
		}
		if limit := d.Pipeline.MaxThreadsPerThreadgroup(); n > limit {
			return c.invalid("threads_per_threadgroup %v: component %d is %d: want at most %d", d.ThreadsPerThreadgroup, i, n, limit)
		}
	}
	if n, limit := d.ThreadsPerThreadgroup.Count(), min(c.l.MaxThreadsPerThreadgroup, d.Pipeline.MaxThreadsPerThreadgroup()); n > limit {
		return c.invalid("threads_per_threadgroup %v: %d threads: want at most %d", d.ThreadsPerThreadgroup, n, limit)
	}
	for i, n := range grid {
		if n < 1 {
			return c.invalid("%s %v: component %d is %d: want at least 1", what, grid, i, n)
		}
		// Positions in the grid are 32-bit numbers.
		if n > math.MaxUint32/per[i] {
			return c.invalid("%s %v: component %d is %d: want at most %d threads along an axis", what, grid, i, n, uint32(math.MaxUint32))
		}
	}
	return nil
}

func (c checker) bindings(args []Argument) error {
	bound := map[int]*Binding{}
	for i := range c.d.Bindings {
		b := &c.d.Bindings[i]
		if b.Index < 0 || b.Index >= c.l.MaxBuffers {
			return c.invalid("buffer index %d: want 0 to %d", b.Index, c.l.MaxBuffers-1)
		}
		if bound[b.Index] != nil {
			return c.invalid("buffer index %d is bound twice", b.Index)
		}
		bound[b.Index] = b
		if err := c.memory(b); err != nil {
			return err
		}
	}
	for i := range args {
		a := &args[i]
		if a.Threadgroup {
			continue
		}
		b := bound[a.Index]
		if b == nil {
			return c.refuse(InvalidLaunch, a.Name, "nothing is bound at buffer index %d: want %s", a.Index, a.Elem)
		}
		if err := c.fits(a, b); err != nil {
			return err
		}
	}
	return nil
}

// memory checks what is bound, whatever the kernel makes of it.
func (c checker) memory(b *Binding) error {
	if b.Buffer == nil {
		if len(b.Bytes) < 1 || len(b.Bytes) > MaxInlineBytes {
			return c.invalid("buffer index %d: %d inline bytes and no buffer: want a buffer or 1 to %d bytes", b.Index, len(b.Bytes), MaxInlineBytes)
		}
		return nil
	}
	if b.Bytes != nil {
		return c.invalid("buffer index %d: both buffer %q and %d inline bytes: want one of the two", b.Index, b.Buffer.Label(), len(b.Bytes))
	}
	if size := b.Buffer.Size(); b.Offset < 0 || b.Length < 1 || b.Offset > size || b.Length > size-b.Offset {
		return c.invalid("buffer index %d: offset %d and length %d: want a window of at least one byte within the %d bytes of buffer %q", b.Index, b.Offset, b.Length, size, b.Buffer.Label())
	}
	return nil
}

// fits checks a binding against the parameter that will see it.
func (c checker) fits(a *Argument, b *Binding) error {
	have := b.Length
	if b.Buffer == nil {
		have = len(b.Bytes)
		if a.Ref && a.ElemSize > 0 && have != a.ElemSize {
			return c.refuse(TypeMismatch, a.Name, "%d bytes at buffer index %d: want the %d of one %s", have, a.Index, a.ElemSize, a.Elem)
		}
		if !a.ReadOnly {
			return c.refuse(InvalidLaunch, a.Name, "inline bytes at buffer index %d: want a buffer, as the kernel may write %s", a.Index, a.Elem)
		}
	}
	if have < a.ElemSize {
		return c.refuse(TypeMismatch, a.Name, "%d bytes at buffer index %d: want at least the %d of one %s", have, a.Index, a.ElemSize, a.Elem)
	}
	if !b.Type.fits(a.Scalar) {
		return c.refuse(TypeMismatch, a.Name, "elements of %s at buffer index %d: want %s", b.Type, a.Index, a.Elem)
	}
	if n := a.Scalar.Size(); b.Buffer != nil && n > 1 && b.Offset%n != 0 {
		return c.refuse(InvalidLaunch, a.Name, "offset %d at buffer index %d: want a multiple of the %d bytes of %s", b.Offset, a.Index, n, a.Scalar)
	}
	return nil
}

func (c checker) threadgroupMemory(args []Argument) error {
	total := c.d.Pipeline.StaticThreadgroupMemory()
	static := total
	for i, n := range c.d.ThreadgroupMemory {
		if n < 0 || n%16 != 0 {
			return c.invalid("threadgroup memory %d: %d bytes: want a multiple of 16", i, n)
		}
		if n > c.l.MaxThreadgroupMemory {
			return c.invalid("threadgroup memory %d: %d bytes: want at most %d", i, n, c.l.MaxThreadgroupMemory)
		}
		total += n
	}
	if len(c.d.ThreadgroupMemory) > c.l.MaxBuffers {
		return c.invalid("%d lengths of threadgroup memory: want at most %d", len(c.d.ThreadgroupMemory), c.l.MaxBuffers)
	}
	for i := range args {
		a := &args[i]
		if !a.Threadgroup {
			continue
		}
		if a.Index >= len(c.d.ThreadgroupMemory) || c.d.ThreadgroupMemory[a.Index] == 0 {
			return c.refuse(InvalidLaunch, a.Name, "no length for threadgroup memory %d: want at least the %d bytes of one %s", a.Index, a.ElemSize, a.Elem)
		}
		if n := c.d.ThreadgroupMemory[a.Index]; n < a.ElemSize {
			return c.refuse(TypeMismatch, a.Name, "%d bytes of threadgroup memory %d: want at least the %d of one %s", n, a.Index, a.ElemSize, a.Elem)
		}
	}
	if total > c.l.MaxThreadgroupMemory {
		return c.invalid("%d bytes of threadgroup memory (%d of them static): want at most %d", total, static, c.l.MaxThreadgroupMemory)
	}
	return nil
}

// CheckWindow reports a window that leaves a buffer.
func CheckWindow(b Buffer, off, n int) error {
	if size := b.Size(); off < 0 || n < 0 || off > size || n > size-off {
		return fmt.Errorf("metal: buffer %q: offset %d and length %d: want a window within its %d bytes", b.Label(), off, n, size)
	}
	return nil
}

// CheckCopy holds a device-side copy against Metal's rules.
func CheckCopy(dst Buffer, dstOff int, src Buffer, srcOff, n int) error {
	for _, w := range []struct {
		b   Buffer
		off int
	}{{dst, dstOff}, {src, srcOff}} {
		if err := CheckWindow(w.b, w.off, n); err != nil {
			return err
		}
		if w.off%4 != 0 {
			return fmt.Errorf("metal: copy from %q to %q: offset %d in %q: want a multiple of 4", src.Label(), dst.Label(), w.off, w.b.Label())
		}
	}
	if n < 4 || n%4 != 0 {
		return fmt.Errorf("metal: copy from %q to %q: %d bytes: want a positive multiple of 4", src.Label(), dst.Label(), n)
	}
	if dst == src && dstOff < srcOff+n && srcOff < dstOff+n {
		return fmt.Errorf("metal: copy within %q: %d bytes from offset %d to %d overlap: want disjoint windows", src.Label(), n, srcOff, dstOff)
	}
	return nil
}
