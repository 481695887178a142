package msl

import "minfer/metal/msl/source"

// Err is an *Error with all errors of the text, those inside of kernels
// included; nil where there is none. It is for callers that take a whole library
// or nothing.
func (l *Library) Err() error {
	if !source.HasErrors(l.warnings) {
		return nil
	}
	return newError(l.src, l.warnings)
}
