//go:build !darwin || static

package apple

// native says that there is no Objective-C runtime.
func native() (objects, error) { return nil, ErrAbsent }
