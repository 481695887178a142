//go:build !linux || (!amd64 && !arm64) || static

package cuda

import (
	"errors"
	"runtime"
)

// errNotHere is what everything that needs a shared library fails with.
var errNotHere = errors.New("cuda is not here: this build of " + runtime.GOOS + "/" + runtime.GOARCH + " opens no shared libraries (it needs linux and no tag static)")

func dlopen(string) (uintptr, error) { return 0, errNotHere }

func bind(uintptr, string, any) error { return errNotHere }

func symbol(uintptr, string) (uintptr, error) { return 0, errNotHere }

// invoke is not reached: nothing can be opened.
func invoke(uintptr, ...uintptr) int32 { return -1 }
