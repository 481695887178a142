// Package soft is the software Metal device: it executes kernels on any CPU with
// Metal's semantics, under a sanitizer, deterministically for any number of
// threads. Its name says that it is software, and nothing falls back to it
// unasked.
package soft
