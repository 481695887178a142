//go:build noembed

package models

import "fmt"

// Names is empty in this build.
func Names() []string { return nil }

// Bytes always fails in this build.
func Bytes(name string) ([]byte, error) {
	return nil, fmt.Errorf("embedded model %q: this program was built with the tag noembed and holds no models: give a model file", name)
}
