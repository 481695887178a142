//go:build unix && !linux

package gguf

// advise has nothing to say to other systems.
func advise([]byte) {}
