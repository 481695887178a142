package kv_test

import (
	"testing"

	"minfer/suites/kv"
	"minfer/suites/suitetest"
)

// Faults of the stores: each value and each other row counts.
func TestPlantedFaults(t *testing.T) {
	suitetest.Red(t, kv.Suite{}, []suitetest.Planted{
		{Name: "a row goes to the next cell",
			Faults: []suitetest.Fault{{File: "kv.metal", Old: "cache[uint(cell) * p.width + at.x] =", New: "cache[(uint(cell) + 1) % p.capacity * p.width + at.x] ="}},
			Filter: "kv_store type=f16 d=(1|77|128) table_rows=(17|64|100) n_rows=(3|5|65)", Reason: "cache: "},
		{Name: "integers are cut instead of rounded",
			Faults: []suitetest.Fault{{File: "attn.h", Old: "clamp(rint(value * inverse)", New: "clamp(trunc(value * inverse)"}},
			Filter: "kv_store type=q8_0 d=(32|96|1024) .*n_rows=(1|3|33)", Reason: "cache: "},
		{Name: "the last channel stays",
			Faults: []suitetest.Fault{{File: "kv.metal", Old: "if (at.x < p.width &&", New: "if (at.x + 1 < p.width &&"}},
			Filter: "kv_store type=f32 d=(1|45|257) ", Reason: "tolerance 0"},
		{Name: "a scale of 128 steps instead of 127",
			Faults: []suitetest.Fault{{File: "attn.h", Old: "to->d = half(largest / 127.0f);", New: "to->d = half(largest / 128.0f);"}},
			Filter: "kv_store type=q8_0 d=64 table_rows=(33|100)", Reason: "cache: "},
		{Name: "a row for the cell past the last is stored",
			Faults: []suitetest.Fault{{File: "kv.metal", Old: "uint(cell) < p.capacity", New: "uint(cell) <= p.capacity"}},
			Filter: "kv_store type=(f32|f16) .*outside=true", Reason: ""},
		{Name: "a packed row for the cell past the last is stored",
			Faults: []suitetest.Fault{{File: "kv.metal", Old: "if (block < blocks && cell >= 0 && uint(cell) < p.capacity) {", New: "if (block < blocks && cell >= 0 && uint(cell) <= p.capacity) {"}},
			Filter: "kv_store type=q8_0 .*outside=true", Reason: ""},
	})
}
