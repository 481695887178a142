package lever

import "strconv"

// All is every setting, levers first, in the order of the documentation.
var All = []Lever{
	flag("MINFER_NO_FLASH", KindLever, "0", func(l *Levers) *bool { return &l.NoFlash },
		"decode attention uses the two-pass split kernel (or the classic one) instead of flash").
		when(onMetal, metal),
	flag("MINFER_NO_PREFILL_FLASH", KindLever, "0", func(l *Levers) *bool { return &l.NoPrefillFlash },
		"prefill attention uses the three-pass parallel kernels (or the classic one) instead of flash").
		when(onMetal, metal),
	flag("MINFER_NO_MATMUL_ATTN", KindLever, "0", func(l *Levers) *bool { return &l.NoMatmulAttn },
		"prefill attention uses the classic kernel instead of the three-pass parallel ones").
		when(onMetal+", with MINFER_NO_PREFILL_FLASH=1", func(l Levers) bool { return metal(l) && l.NoPrefillFlash }),
	flag("MINFER_NO_SPLIT_ATTN", KindLever, "0", func(l *Levers) *bool { return &l.NoSplitAttn },
		"decode attention uses the classic kernel instead of the two-pass split one").
		when(onMetal+", with MINFER_NO_FLASH=1", func(l Levers) bool { return metal(l) && l.NoFlash }),
	flag("MINFER_NO_RMS_256", KindLever, "0", func(l *Levers) *bool { return &l.NoRMS256 },
		"RMSNorm runs 32 threads a row instead of 256").
		when(onMetal, metal),
	flag("MINFER_GEMM", KindLever, "1", func(l *Levers) *bool { return &l.GEMM },
		"0 keeps matrix products off the simdgroup GEMM: the multi-row kernel takes its shapes").
		when(onMetal, metal),
	text("MINFER_CACHE_TYPE", KindLever, []string{"f16", "f32", "q8_0"}, "", func(l *Levers) *string { return &l.CacheType },
		"the element type of the KV cache; unset, the backend chooses by the model's size"),
	attnChunks(),
	flag("MINFER_NO_FUSE_QKV", KindLever, "0", func(l *Levers) *bool { return &l.NoFuseQKV },
		"decode multiplies by the q, k and v weights one by one instead of by their concatenation").
		when(onMetal, metal),
	flag("MINFER_NO_FUSE_FFN", KindLever, "0", func(l *Levers) *bool { return &l.NoFuseFFN },
		"decode runs gate, up and their product as single nodes instead of one").
		when(onMetal, metal),
	flag("MINFER_WEIGHT_COPY", KindLever, "0", func(l *Levers) *bool { return &l.WeightCopy },
		"weights are copied into device buffers instead of wrapping the mapped file (a device with memory of its own always copies)").
		when(onMetal, metal),

	flag("MINFER_DISABLE_MPS", KindSwitch, "0", func(l *Levers) *bool { return &l.DisableMPS },
		"the Metal backend takes no part: everything runs on the CPU"),
	text("MINFER_CPU_LEVEL", KindSwitch, []string{"generic", "avx2", "avx512"}, "", func(l *Levers) *string { return &l.CPULevel },
		"the level of the CPU kernels; unset, the bits of avx2 by the fastest instructions that the CPU has"),
	text("MINFER_LLAMA_LIB", KindSwitch, nil, "a directory", func(l *Levers) *string { return &l.LlamaLib },
		"where llama.cpp's shared libraries are, for the live oracle"),

	flag("MINFER_GRAPH_TRACE", KindObservation, "0", func(l *Levers) *bool { return &l.GraphTrace },
		"each plan prints its splits and a census of ops by backend"),
	flag("MINFER_OP_PROFILE", KindObservation, "0", func(l *Levers) *bool { return &l.OpProfile },
		"the first run of a plan prints its 20 slowest nodes, every run its times"),
	text("MINFER_TRACE", KindObservation, nil, "a directory", func(l *Levers) *string { return &l.Trace },
		"the values of every node are written there"),
	text("MINFER_METAL_CAPTURE", KindObservation, nil, "a file", func(l *Levers) *string { return &l.MetalCapture },
		"a GPU capture is written there").
		when("on an Apple GPU", metal),
	text("MINFER_METALLIB_FILE", KindObservation, nil, "a file", func(l *Levers) *string { return &l.MetallibFile },
		"the kernels are loaded from this compiled library instead of being compiled at start").
		when("on an Apple GPU", metal),
}

// maxAttnChunks is the largest number of KV chunks of decode flash attention.
const maxAttnChunks = 16

func attnChunks() Lever {
	v := Lever{
		Name: "MINFER_ATTN_CHUNKS", Kind: KindLever,
		Changes:  "the number of KV chunks of decode flash attention; unset, one for 32 rows and at most 16",
		LiveWhen: onMetal + ", with MINFER_NO_FLASH=0", Live: func(l Levers) bool { return metal(l) && !l.NoFlash },
		set: func(l *Levers, v string) { l.AttnChunks, _ = strconv.Atoi(v) },
		get: func(l Levers) string {
			if l.AttnChunks == 0 {
				return ""
			}
			return strconv.Itoa(l.AttnChunks)
		},
	}
	for n := 1; n <= maxAttnChunks; n++ {
		v.Values = append(v.Values, strconv.Itoa(n))
	}
	return v
}
