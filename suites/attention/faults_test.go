package attention_test

import (
	"testing"

	"minfer/suites/attention"
	"minfer/suites/suitetest"
)

// Faults of the five variants and of the packed cache.
func TestPlantedFaults(t *testing.T) {
	const noFlash, noSplit = "levers=NO_FLASH,NO_PREFILL_FLASH$", "levers=NO_FLASH,NO_SPLIT_ATTN"
	suitetest.Red(t, attention.Suite{}, []suitetest.Planted{
		{Name: "decode sees one cell past its position",
			Faults: []suitetest.Fault{{File: "attn.h", Old: "min(uint(pos) + 1u, n_kv)", New: "min(uint(pos) + 2u, n_kv)"}},
			Filter: "n_kv=(34|66|51.|2050) n_tokens=1 .*spare=1( |$)", Reason: "attention"},
		{Name: "decode leaves the last cell out",
			Faults: []suitetest.Fault{{File: "attn.h", Old: "min(uint(pos) + 1u, n_kv)", New: "max(min(uint(pos), n_kv), 1u)"}},
			Filter: "n_kv=(31|33|513) n_tokens=1 .*(f16|ATTN_CHUNKS=3)$", Reason: "attention"},
		{Name: "the last chunk is stale",
			Faults: []suitetest.Fault{{File: "attn_flash_decode.metal", Old: "const uint live = (n + size - 1) / size;", New: "const uint live = max((n + size - 1) / size, 2u) - 1u;"}},
			Filter: "n_kv=513 n_tokens=1 kv_type=f32 levers=ATTN_CHUNKS=3$", Reason: "worst at"},
		{Name: "split: scores are not scaled",
			Faults: []suitetest.Fault{{File: "attn_split.metal", Old: "scores[c] = dot * p.scale;", New: "scores[c] = dot;"}},
			Filter: "hd=(64|128) .*n_kv=[0-9][0-9]+ n_tokens=1 .*" + noFlash, Reason: "split"},
		{Name: "parallel: one cell too many",
			Faults: []suitetest.Fault{{File: "attn_parallel.metal", Old: "first + int(lane) < visible ? exp(", New: "first + int(lane) <= visible ? exp("}},
			Filter: "n_kv=(33|70|99|51.) n_tokens=(8|9|33|70) .*" + noFlash, Reason: "attention"},
		{Name: "classic: old sums are not scaled down",
			Faults: []suitetest.Fault{{File: "attn_classic.metal", Old: "const float keep = exp(m - top);", New: "const float keep = 1.0f;"}},
			Filter: "n_kv=(51.|55.) n_tokens=(1|2|8|9) .*" + noSplit, Reason: "classic"},
		{Name: "prefill flash: a tile's largest score is not kept",
			Faults: []suitetest.Fault{{File: "attn_prefill_flash.metal", Old: "const float factor = exp(largest[r] - top);", New: "const float factor = 1.0f;"}},
			Filter: "hd=(64|128) .*n_kv=(51.|55.) n_tokens=(2|8|9|15|16) .*kv_type=(f16|f32)( spare=[0-9]+)?$", Reason: "prefill_flash"},
		{Name: "the packed cache's scale is one block's for all",
			Faults: []suitetest.Fault{{File: "kv.metal", Old: "float(packed[i / 32].d)", New: "float(packed[i / 64 * 2].d)"}},
			Filter: "n_kv=(33|34|7.) n_tokens=[0-9]+ kv_type=q8_0 .*levers=NO_FLASH", Reason: "worst at"},
	})
}
