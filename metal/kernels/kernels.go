// Package kernels holds the project's Metal Shading Language kernels, one family
// a file: the one source for all devices, an fs.FS that a user can replace.
//
// Each .metal file is a library of its own; .h files are what they include. The
// kernels see nothing of the host but their arguments, whose order is weights,
// activations, other inputs, output, parameters.
package kernels

import "embed"

// FS holds the sources: every *.metal is one library.
//
//go:embed *.metal *.h
var FS embed.FS
