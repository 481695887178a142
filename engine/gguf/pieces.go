package gguf

import "io"

// pieceBytes is how much is handed to the file system at a time, at offsets that
// are multiples of it. On file systems with large folios (XFS and Btrfs, ext4 of newer
// kernels, tmpfs mounted for it) Linux keeps what one write brings in pieces of its
// page cache of up to a huge page (2 MiB), so that whoever maps the file finds it in
// huge pages instead of in pages of 4 KiB, from which weights stream more slowly. On
// others the size makes no difference.
const pieceBytes = 8 << 20

// A pieceWriter writes pieces of pieceBytes, all but the last. After an error it
// writes nothing more and gives that error again: a piece is missing from then on.
type pieceWriter struct {
	w   io.Writer
	buf []byte
	err error
}

func (p *pieceWriter) Write(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
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
	if p.err == nil {
		_, p.err = p.w.Write(p.buf)
		p.buf = p.buf[:0]
	}
	return p.err
}
