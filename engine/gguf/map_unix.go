//go:build unix

package gguf

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps size bytes of a file, read-only and shared: a model costs memory
// once, in the page cache, however many processes read it. The mapping outlives
// the descriptor. Truncating the file meanwhile makes a later read of the lost
// pages a fatal signal, which no check here can prevent; replacing it by a
// rename, as Write does, leaves the mapping whole.
func mapFile(f *os.File, size int) (data []byte, unmap func() error, err error) {
	data, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	advise(data)
	return data, func() error { return os.NewSyscallError("munmap", unix.Munmap(data)) }, nil
}
