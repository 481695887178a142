//go:build !linux || !amd64 || static

package llamacpp

import (
	"errors"
	"runtime"
)

var errNotHere = errors.New("the llama.cpp oracle needs linux/amd64 and a build without the tag static; this is " +
	runtime.GOOS + "/" + runtime.GOARCH)

// supported says that this build can't open the libraries. Nothing below is
// ever reached, since Open asks first.
func supported() error { return errNotHere }

func dlopen(string) (uintptr, error)         { return 0, errNotHere }
func dlsym(uintptr, string) (uintptr, error) { return 0, errNotHere }
func register(any, uintptr)                  {}
func newCallback(any) uintptr                { return 0 }
