package metal

// attnTable are the entries of the classic kernel.
func attnTable() []*Entry { return nil }

// attnDecodeTable are the entries of the decode kernels.
func attnDecodeTable() []*Entry { return nil }

// classicThreads is the size of a threadgroup of the classic kernel: a thread for
// each channel of a head, in whole simdgroups.
func classicThreads(headDim int) int { return ceil(headDim, 32) * 32 }

func (b *Backend) attnClassic(a *attention) error { return refuse(a.n, "no kernel for this op") }
func (b *Backend) decodeFlash(a *attention) error { return refuse(a.n, "no kernel for this op") }
func (b *Backend) decodeSplit(a *attention) error { return refuse(a.n, "no kernel for this op") }
