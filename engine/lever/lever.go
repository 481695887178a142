// Package lever is every setting that reaches minfer through the environment:
// levers (which kernel or path is taken), switches (which backend or library)
// and observations (what is printed or recorded).
//
// It is a leaf. The environment is read once, by a command, with [Parse]; the
// resulting [Levers] value is passed down. No other package reads the
// environment, and a test of this package forbids it: an A/B comparison in one
// process needs two values, not one environment.
//
// Everything here is a plain value and safe for concurrent use.
package lever

// Levers holds the parsed value of every setting. The zero value is not the
// default: use Default.
type Levers struct {
	NoFlash        bool   // MINFER_NO_FLASH
	NoPrefillFlash bool   // MINFER_NO_PREFILL_FLASH
	NoMatmulAttn   bool   // MINFER_NO_MATMUL_ATTN
	NoSplitAttn    bool   // MINFER_NO_SPLIT_ATTN
	NoRMS256       bool   // MINFER_NO_RMS_256
	GEMM           bool   // MINFER_GEMM
	CacheType      string // MINFER_CACHE_TYPE: "", "f16", "f32", "q8_0"; "" lets the backend choose
	AttnChunks     int    // MINFER_ATTN_CHUNKS: 1..16; 0 lets the kernel choose
	NoFuseQKV      bool   // MINFER_NO_FUSE_QKV
	NoFuseFFN      bool   // MINFER_NO_FUSE_FFN
	WeightCopy     bool   // MINFER_WEIGHT_COPY

	DisableMPS bool   // MINFER_DISABLE_MPS
	CPULevel   string // MINFER_CPU_LEVEL: "", "generic", "avx2", "avx512"; "" is the best that the CPU has
	LlamaLib   string // MINFER_LLAMA_LIB: a directory

	GraphTrace   bool   // MINFER_GRAPH_TRACE
	OpProfile    bool   // MINFER_OP_PROFILE
	Trace        string // MINFER_TRACE: a directory
	MetalCapture string // MINFER_METAL_CAPTURE: a file
	MetallibFile string // MINFER_METALLIB_FILE: a file
}
