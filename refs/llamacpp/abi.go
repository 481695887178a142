package llamacpp

import (
	"fmt"
	"reflect"
	"slices"
	"unsafe"
)

// The C structures, as docs/numerics.md section 13 has them. Fields that this
// package does not name keep the library's defaults.

// modelParams is llama_model_params, 80 bytes, passed and returned by value.
type modelParams struct {
	_             [16]byte
	nGPULayers    int32 // 16, -1 by default: all
	_             [52]byte
	vocabOnly     uint8 // 72
	_             uint8
	useExtraBufts uint8 // 74
	_             [5]byte
}

// contextParams is llama_context_params, 160 bytes, passed and returned by value.
type contextParams struct {
	nCtx           uint32 // 0
	nBatch         uint32
	nUBatch        uint32
	nSeqMax        uint32
	_              [12]byte
	nThreads       int32 // 28
	nThreadsBatch  int32
	_              [16]byte
	flashAttnType  int32 // 52
	ropeFreqBase   float32
	_              [28]byte
	cbEval         uintptr // 88
	cbEvalUserData uintptr
	typeK          int32 // 104
	typeV          int32
	_              [48]byte
}

// batch is llama_batch, 56 bytes, passed by value.
type batch struct {
	nTokens int32
	_       int32
	token   *int32
	embd    *float32
	pos     *int32
	nSeqID  *int32
	seqID   **int32
	logits  *int8
}

// quantizeParams is llama_model_quantize_params; the library returns it by
// value through a hidden pointer and takes it by pointer, so room for more than
// it has is harmless.
type quantizeParams struct {
	nThread int32
	fType   int32
	_       [8]byte
	_       [3]uint8
	pure    uint8 // 19
	_       [236]byte
}

// initParams is ggml_init_params, 24 bytes, passed by value.
type initParams struct {
	memSize   uint64
	memBuffer unsafe.Pointer
	noAlloc   uint8
	_         [7]byte
}

// tensor is ggml_tensor, 336 bytes.
type tensor struct {
	typ      int32
	_        int32
	buffer   unsafe.Pointer
	ne       [4]int64  // elements per dimension, innermost first
	nb       [4]uint64 // stride per dimension, bytes
	op       int32
	opParams [16]int32 // 84
	flags    int32
	src      [10]*tensor // 152
	viewSrc  *tensor     // 232
	viewOffs uint64
	data     unsafe.Pointer // 248
	name     [64]byte       // 256
	extra    unsafe.Pointer
	_        [8]byte
}

// typeTraits is the start of ggml_type_traits.
type typeTraits struct {
	name         *byte
	blockSize    int64
	_            int64
	typeSize     uint64
	isQuantized  uint8
	_            [7]byte
	toFloat      uintptr // 40
	fromFloatRef uintptr
}

// typeTraitsCPU is the start of ggml_type_traits_cpu.
type typeTraitsCPU struct {
	fromFloat  uintptr
	vecDot     uintptr
	vecDotType int32
	_          int32
	nRows      int64
}

// functions are the C functions in use; the tag gives the library ("base",
// "ggml", "llama", "cpu", "c") and the symbol.
type functions struct {
	GnuGetLibcVersion func() string `c:"c gnu_get_libc_version"`

	LlamaVersion              func() string                                                                             `c:"llama llama_version"`
	LlamaLogSet               func(callback, user uintptr)                                                              `c:"llama llama_log_set"`
	LlamaBackendInit          func()                                                                                    `c:"llama llama_backend_init"`
	LlamaModelDefaultParams   func() modelParams                                                                        `c:"llama llama_model_default_params"`
	LlamaModelLoadFromFile    func(path string, p modelParams) unsafe.Pointer                                           `c:"llama llama_model_load_from_file"`
	LlamaModelFree            func(m unsafe.Pointer)                                                                    `c:"llama llama_model_free"`
	LlamaModelGetVocab        func(m unsafe.Pointer) unsafe.Pointer                                                     `c:"llama llama_model_get_vocab"`
	LlamaModelNLayer          func(m unsafe.Pointer) int32                                                              `c:"llama llama_model_n_layer"`
	LlamaModelNCtxTrain       func(m unsafe.Pointer) int32                                                              `c:"llama llama_model_n_ctx_train"`
	LlamaModelQuantize        func(in, out string, p *quantizeParams) uint32                                            `c:"llama llama_model_quantize"`
	LlamaModelQuantizeDefault func() quantizeParams                                                                     `c:"llama llama_model_quantize_default_params"`
	LlamaVocabNTokens         func(v unsafe.Pointer) int32                                                              `c:"llama llama_vocab_n_tokens"`
	LlamaVocabBOS             func(v unsafe.Pointer) int32                                                              `c:"llama llama_vocab_bos"`
	LlamaVocabEOS             func(v unsafe.Pointer) int32                                                              `c:"llama llama_vocab_eos"`
	LlamaVocabIsEOG           func(v unsafe.Pointer, id int32) bool                                                     `c:"llama llama_vocab_is_eog"`
	LlamaTokenize             func(v unsafe.Pointer, text *byte, n int32, out *int32, max int32, add, parse bool) int32 `c:"llama llama_tokenize"`
	LlamaTokenToPiece         func(v unsafe.Pointer, id int32, buf *byte, n, lstrip int32, special bool) int32          `c:"llama llama_token_to_piece"`
	LlamaContextDefaultParams func() contextParams                                                                      `c:"llama llama_context_default_params"`
	LlamaInitFromModel        func(m unsafe.Pointer, p contextParams) unsafe.Pointer                                    `c:"llama llama_init_from_model"`
	LlamaFree                 func(c unsafe.Pointer)                                                                    `c:"llama llama_free"`
	LlamaNCtx                 func(c unsafe.Pointer) uint32                                                             `c:"llama llama_n_ctx"`
	LlamaNUBatch              func(c unsafe.Pointer) uint32                                                             `c:"llama llama_n_ubatch"`
	LlamaNThreads             func(c unsafe.Pointer) int32                                                              `c:"llama llama_n_threads"`
	LlamaDecode               func(c unsafe.Pointer, b batch) int32                                                     `c:"llama llama_decode"`
	LlamaGetLogits            func(c unsafe.Pointer) *float32                                                           `c:"llama llama_get_logits"`
	LlamaGetLogitsIth         func(c unsafe.Pointer, i int32) *float32                                                  `c:"llama llama_get_logits_ith"`
	LlamaGetMemory            func(c unsafe.Pointer) unsafe.Pointer                                                     `c:"llama llama_get_memory"`
	LlamaMemoryClear          func(m unsafe.Pointer, data bool)                                                         `c:"llama llama_memory_clear"`
	LlamaMemorySeqRm          func(m unsafe.Pointer, seq, from, to int32) bool                                          `c:"llama llama_memory_seq_rm"`
	LlamaSamplerInitGreedy    func() unsafe.Pointer                                                                     `c:"llama llama_sampler_init_greedy"`
	LlamaSamplerSample        func(s, c unsafe.Pointer, i int32) int32                                                  `c:"llama llama_sampler_sample"`
	LlamaSamplerFree          func(s unsafe.Pointer)                                                                    `c:"llama llama_sampler_free"`

	GGMLBackendLoad func(path string) unsafe.Pointer `c:"ggml ggml_backend_load"`

	GGMLBackendRegDevCount func(reg unsafe.Pointer) uint64                       `c:"base ggml_backend_reg_dev_count"`
	GGMLBackendRegDevGet   func(reg unsafe.Pointer, index uint64) unsafe.Pointer `c:"base ggml_backend_reg_dev_get"`
	GGMLBackendDevType     func(dev unsafe.Pointer) int32                        `c:"base ggml_backend_dev_type"`
	GGMLBackendDevDesc     func(dev unsafe.Pointer) string                       `c:"base ggml_backend_dev_description"`

	GGMLLogSet        func(callback, user uintptr)                                            `c:"base ggml_log_set"`
	GGMLOpDesc        func(t *tensor) string                                                  `c:"base ggml_op_desc"`
	GGMLGetTypeTraits func(t int32) *typeTraits                                               `c:"base ggml_get_type_traits"`
	GGMLInit          func(p initParams) unsafe.Pointer                                       `c:"base ggml_init"`
	GGMLFree          func(c unsafe.Pointer)                                                  `c:"base ggml_free"`
	GGMLNewTensor     func(c unsafe.Pointer, typ, dims int32, ne *int64) *tensor              `c:"base ggml_new_tensor"`
	GGMLNewGraph      func(c unsafe.Pointer) unsafe.Pointer                                   `c:"base ggml_new_graph"`
	GGMLBuildForward  func(g unsafe.Pointer, t *tensor)                                       `c:"base ggml_build_forward_expand"`
	GGMLMulMat        func(c unsafe.Pointer, a, b *tensor) *tensor                            `c:"base ggml_mul_mat"`
	GGMLGetRows       func(c unsafe.Pointer, a, b *tensor) *tensor                            `c:"base ggml_get_rows"`
	GGMLSetRows       func(c unsafe.Pointer, a, b, ids *tensor) *tensor                       `c:"base ggml_set_rows"`
	GGMLRMSNorm       func(c unsafe.Pointer, a *tensor, eps float32) *tensor                  `c:"base ggml_rms_norm"`
	GGMLAdd           func(c unsafe.Pointer, a, b *tensor) *tensor                            `c:"base ggml_add"`
	GGMLMul           func(c unsafe.Pointer, a, b *tensor) *tensor                            `c:"base ggml_mul"`
	GGMLSilu          func(c unsafe.Pointer, a *tensor) *tensor                               `c:"base ggml_silu"`
	GGMLSwigluSplit   func(c unsafe.Pointer, a, b *tensor) *tensor                            `c:"base ggml_swiglu_split"`
	GGMLSoftMaxExt    func(c unsafe.Pointer, a, mask *tensor, scale, maxBias float32) *tensor `c:"base ggml_soft_max_ext"`
	GGMLRopeExt       func(c unsafe.Pointer, a, pos, freqs *tensor, nDims, mode, nCtxOrig int32,
		freqBase, freqScale, extFactor, attnFactor, betaFast, betaSlow float32) *tensor `c:"base ggml_rope_ext"`

	GGMLCPUInit             func()                                         `c:"cpu ggml_cpu_init"`
	GGMLGetTypeTraitsCPU    func(t int32) *typeTraitsCPU                   `c:"cpu ggml_get_type_traits_cpu"`
	GGMLGraphComputeWithCtx func(c, g unsafe.Pointer, threads int32) int32 `c:"cpu ggml_graph_compute_with_ctx"`
	GGMLBackendScore        func() int32                                   `c:"cpu ggml_backend_score"`
}

// bindAll fills the table; lookup gives the address of a symbol of one of the
// libraries and register makes a Go function of it.
func (f *functions) bindAll(libs []string, lookup func(lib, symbol string) (uintptr, error), register func(fptr any, addr uintptr)) error {
	v := reflect.ValueOf(f).Elem()
	for i := range v.NumField() {
		var lib, symbol string
		tag := v.Type().Field(i).Tag.Get("c")
		if _, err := fmt.Sscan(tag, &lib, &symbol); err != nil {
			return fmt.Errorf("function table, field %s: tag %q: %w", v.Type().Field(i).Name, tag, err)
		}
		if !slices.Contains(libs, lib) {
			continue
		}
		addr, err := lookup(lib, symbol)
		if err != nil {
			return err
		}
		register(v.Field(i).Addr().Interface(), addr)
	}
	return nil
}
