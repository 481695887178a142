package metal

func attnPrefillTable() []*Entry { return nil }

func (b *Backend) prefillFlash(a *attention) error {
	return refuse(a.n, "no kernel for this op")
}

func (b *Backend) prefillParallel(a *attention) error {
	return refuse(a.n, "no kernel for this op")
}
