// Package metal is the Metal backend: the half that faces the graph (encoding,
// the dispatch table, guards, the weight registry). It knows devices only through
// metal/mtl, so the same backend runs on Apple GPUs, on NVIDIA GPUs and on the
// software device; its kernels are in metal/kernels, written once in Metal
// Shading Language.
//
// Use: [New] with a device, HoldPart and HoldWeight for every weight, then as a
// graph.Backend, then [Backend.Close] and the device's Close. ExecuteNode encodes
// and never waits: one command buffer a split, made at its first node, submitted
// by Synchronize. A memory barrier follows every dispatch, so a node's launches
// and the nodes are ordered as they are encoded.
//
// [Table] is the one list of what can be dispatched: the encoders look their
// kernels up in it, every pipeline of it is compiled by New, and coverage and
// listings count its entries. Each entry states the error bound of the op as that
// kernel computes it.
//
// What a kernel cannot do is refused before anything is encoded, by an error with
// the numbers that wraps graph.ErrUnsupported. Nothing falls back.
//
// A Backend is for one goroutine at a time; several may share a device.
package metal
