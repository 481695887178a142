//go:build linux && (amd64 || arm64) && !static

package cuda

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// dlopen maps a library by path or by name.
func dlopen(path string) (uintptr, error) {
	h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return 0, fmt.Errorf("can't open %s: %w", path, err)
	}
	return h, nil
}

// bind makes the Go function variable at fptr call a function of the library.
func bind(lib uintptr, name string, fptr any) error {
	addr, err := purego.Dlsym(lib, name)
	if err != nil {
		return fmt.Errorf("no function %s in the library: %w", name, err)
	}
	purego.RegisterFunc(fptr, addr)
	return nil
}
