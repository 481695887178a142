// Package cuda is the device for NVIDIA GPUs: kernels go from the IR of metal/msl
// to CUDA C++, which the driver's run-time compiler builds; both libraries are
// opened at run time.
package cuda
