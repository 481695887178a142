package gguf

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// advise lets what is read from the disk through the mapping come in huge pages,
// where the file system has them: streaming weights from pages of 4 KiB is much
// slower. What is in the page cache already stays as it is. A kernel that was built
// without huge pages says EINVAL, and the mapping works as before.
func advise(data []byte) { _ = unix.Madvise(data, unix.MADV_HUGEPAGE) }

// populatePiece is how many bytes are mapped at a time. What needs the address space
// to itself, such as a growing heap, waits for one of them.
const populatePiece = 4 << 20

// populate maps the pages of a mapping, and reads those that are not in memory, in a
// thread of its own; stop ends that and waits for its end. It is advice: where the
// kernel refuses (Linux before 5.14, a file that has become shorter) it ends, and pages
// are mapped when they are touched.
func populate(data []byte) (stop func()) {
	var enough atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for rest := data; len(rest) > 0 && !enough.Load(); rest = rest[min(populatePiece, len(rest)):] {
			if unix.Madvise(rest[:min(populatePiece, len(rest))], unix.MADV_POPULATE_READ) != nil {
				return
			}
		}
	})
	return func() { enough.Store(true); wg.Wait() }
}
