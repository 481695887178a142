//go:build !amd64

package lane

// native is nothing: assembly is for amd64.
func native() []*functions { return nil }
