package gguf

import "golang.org/x/sys/unix"

// advise lets what is read from the disk through the mapping come in huge pages,
// where the file system has them: streaming weights from pages of 4 KiB is much
// slower. What is in the page cache already stays as it is. A kernel that was built
// without huge pages says EINVAL, and the mapping works as before.
func advise(data []byte) { _ = unix.Madvise(data, unix.MADV_HUGEPAGE) }
