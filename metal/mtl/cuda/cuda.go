// Package cuda is the device for NVIDIA GPUs: kernels go from the IR of metal/msl
// to CUDA C++, which NVIDIA's run-time compiler builds; both of its libraries are
// opened at run time.
//
// Order of use: [Emit] prints a verified ir.Func as the text of one kernel;
// [OpenCompiler] and [OpenDriver] find the libraries; [Compiler.Compile] makes
// machine code of the text, [Driver.Load] a [Kernel] of that, and [Kernel.Launch]
// runs it on [Memory]. Emit needs no library, the compiler no GPU.
//
// The numeric contract is that of package ir, so results have the bits of the
// software device: every float operation is an intrinsic that rounds once, fused
// only where the IR has an FMA; the functions of libm are printed operation by
// operation; simd reductions walk the same tree. Two things are outside of it:
// the payload of NaNs, and accesses out of bounds, which the hardware does not
// check.
//
// A simdgroup is a warp. Blocks are linear and whole; the emitted code gives
// threads their MSL positions and ends those beyond a ragged edge at once. Lanes of
// a warp do not run in step, so the emitter keeps the mask of active lanes where
// lanes that diverge meet simdgroup functions, and passes it to each.
//
// A GPU can't stop a kernel of a process that should go on, so a kernel has to end
// by itself: with [Options.Poll] every loop looks now and then at a word that a
// launch sets at its deadline, but for innermost loops that count up to a bound.
// A kernel that does not stop costs the process its GPU, which every later call
// says.
//
// [Open] gives a [Device], which is an [mtl.Device] on all of this: pipelines whose
// machine code is kept on disk, buffers in the GPU's memory that the host reads
// and writes by copies, and command buffers that run in one stream, in the order
// that they were recorded in. Products of simdgroup matrices are the tensor cores'
// (emit_tensor.go): each within an error that [Tensor] states and the source's
// ProductError chooses, 32 bits a sum. With [DeviceOptions].SoftMatrices, and in kernels
// that look at a lane's elements, they are chains of FMAs, as on the software device,
// bit for bit.
//
// Emit is pure. A Driver and what it makes are bound to one context and may be
// used from several goroutines, one call at a time; each locks its thread.
package cuda
