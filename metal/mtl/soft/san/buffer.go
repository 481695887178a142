package san

// Buffer is what the sanitizer knows of one device buffer for its whole life:
// its name and which of its bytes were ever written. A buffer that the host
// filled costs nothing.
type Buffer struct {
	Name string
	Size int // bytes

	defined *bitmap
}

// NewBuffer returns the state of a buffer of which no byte is defined.
func NewBuffer(name string, size int) *Buffer {
	return &Buffer{Name: name, Size: size, defined: newBitmap(size)}
}

// Define marks n bytes as written by the host.
func (b *Buffer) Define(off, n int) { b.defined.put(off, n, true) }

// Undefine marks n bytes as never written: poison.
func (b *Buffer) Undefine(off, n int) { b.defined.put(off, n, false) }

// Defined says whether every byte of the range was written.
func (b *Buffer) Defined(off, n int) bool { return b.defined.covers(off, n) }

// Copy takes over the state of n bytes of another buffer, or of another range of
// this one.
func (b *Buffer) Copy(off int, src *Buffer, srcOff, n int) {
	type run struct{ off, n int }
	var gaps []run
	src.defined.gaps(srcOff, n, func(o, n int) { gaps = append(gaps, run{o, n}) })
	b.Define(off, n)
	for _, g := range gaps {
		b.Undefine(off+g.off-srcOff, g.n)
	}
}
