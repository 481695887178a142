// Package metal is the Metal backend: the half that faces the graph (encoding,
// the dispatch table, guards, the weight registry and the weights gate). It
// knows devices only through metal/mtl, so the same backend runs on Apple GPUs,
// on NVIDIA GPUs and on the software device; its kernels are in metal/kernels,
// written once in Metal Shading Language.
package metal
