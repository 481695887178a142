//go:build !linux

package gguf

// advise and populate have nothing to say to other systems.
func advise([]byte) {}

func populate([]byte) (stop func()) { return func() {} }
