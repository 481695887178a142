package fusion_test

import (
	"testing"

	"minfer/suites/fusion"
	"minfer/suites/suitetest"
)

// Faults of what follows the fused products.
func TestPlantedFaults(t *testing.T) {
	suitetest.Red(t, fusion.Suite{}, []suitetest.Planted{
		{Name: "keys are normalised with the weight of queries",
			Faults: []suitetest.Fault{{File: "epilogue.metal", Old: "group < heads ? norm : norm + hd;", New: "norm;"}},
			Filter: "fused_qkv_norm .*kv_type=(f32|f16)", Reason: "K cache: "},
		{Name: "queries rotate the other way",
			Faults: []suitetest.Fault{{File: "epilogue.metal", Old: "head[i] = a * c - b * s;\n            head[j] = a * s + b * c;", New: "head[i] = a * c + b * s;\n            head[j] = b * c - a * s;"}},
			Filter: "fused_qkv .*pos=(31|7) ", Reason: "worst at"},
		{Name: "values of one head go to another",
			Faults: []suitetest.Fault{{File: "epilogue.metal", Old: "put(values, head, cell * p.heads_kv * dim + (group - heads - p.heads_kv) * dim", New: "put(values, head, cell * p.heads_kv * dim + (2 * p.heads_kv - 1 - (group - heads)) * dim"}},
			Filter: "fused_qkv .*n_head_kv=2 .*kv_type=", Reason: "V cache: "},
		{Name: "the bias is left out",
			Faults: []suitetest.Fault{{File: "epilogue.metal", Old: "p.biased != 0 ? x[first + i] + bias[first + i] :", New: "p.biased != 0 ? x[first + i] :"}},
			Filter: "fused_qkv(_norm)? .*bias=true", Reason: "worst at"},
		{Name: "a row for the cell past the last is stored",
			Faults: []suitetest.Fault{{File: "epilogue.metal", Old: "} else if (cell < p.capacity) {", New: "} else if (cell <= p.capacity) {"}},
			Filter: "fused_qkv .*cells=7 pos=7 ", Reason: ""},
		{Name: "gate and up change places",
			Faults: []suitetest.Fault{{File: "elementwise.metal", Old: "swiglu(x[i], x[p.off + i])", New: "swiglu(x[p.off + i], x[i])"}},
			Filter: "fused_ffn type=(q4_0|f16|q6_K) k=(64|512|1536) n_ff=[0-9][0-9]$", Reason: "fused_ffn"},
	})
}
