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
	addr, err := symbol(lib, name)
	if err != nil {
		return err
	}
	purego.RegisterFunc(fptr, addr)
	return nil
}

// symbol is the address of a function of the library.
func symbol(lib uintptr, name string) (uintptr, error) {
	addr, err := purego.Dlsym(lib, name)
	if err != nil {
		return 0, fmt.Errorf("no function %s in the library: %w", name, err)
	}
	return addr, nil
}

// invoke calls a function that takes integers and pointers and gives a result
// code. It costs a tenth of what a bound function does.
//
//go:uintptrescapes
func invoke(fn uintptr, args ...uintptr) int32 {
	code, _, _ := purego.SyscallN(fn, args...)
	return int32(code)
}
