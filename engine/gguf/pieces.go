package gguf

import "io"

// pieceBytes is how much is handed to the file system at a time, at offsets that
// are multiples of it. Linux keeps what one write brings as one piece of its page
// cache, up to the size of a huge page (2 MiB), so that whoever maps the file finds
// it in huge pages instead of in pages of 4 KiB. Streaming weights from those is
// nearly twice as fast.
const pieceBytes = 8 << 20

// A pieceWriter writes pieces of pieceBytes, all but the last.
type pieceWriter struct {
	w   io.Writer
	buf []byte
}

func (p *pieceWriter) Write(b []byte) (int, error) {
	written := 0
	for written < len(b) {
		if len(p.buf) == pieceBytes {
			if err := p.Flush(); err != nil {
				return written, err
			}
		}
		k := min(len(b)-written, pieceBytes-len(p.buf))
		p.buf = append(p.buf, b[written:written+k]...)
		written += k
	}
	return written, nil
}

// Flush writes what is left.
func (p *pieceWriter) Flush() error {
	_, err := p.w.Write(p.buf)
	p.buf = p.buf[:0]
	return err
}
