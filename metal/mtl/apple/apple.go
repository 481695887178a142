// Package apple is the Metal device of macOS: a thin shim over Metal.framework,
// opened at run time.
package apple
