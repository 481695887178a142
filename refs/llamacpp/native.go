//go:build linux && amd64 && !static

package llamacpp

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// supported says that this build can open the libraries.
func supported() error { return nil }

// dlopen maps a library by path (or by name, for libc). A dependency with the
// SONAME of a library already mapped resolves to that one.
func dlopen(path string) (uintptr, error) {
	h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return 0, fmt.Errorf("can't open %s: %w", path, err)
	}
	return h, nil
}

func dlsym(handle uintptr, symbol string) (uintptr, error) {
	return purego.Dlsym(handle, symbol)
}

// register makes the Go function variable at fptr call the C function at addr.
// purego follows the SysV ABI for structures by value: more than 16 bytes go to
// the stack, and a result of more than 16 comes through a hidden pointer.
func register(fptr any, addr uintptr) { purego.RegisterFunc(fptr, addr) }

// newCallback makes a C function of a Go function; it is never freed.
func newCallback(fn any) uintptr { return purego.NewCallback(fn) }
