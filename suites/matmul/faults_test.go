package matmul_test

import (
	"testing"

	"minfer/suites/matmul"
	"minfer/suites/suitetest"
)

// Faults of the three tiers: each is seen by a case whose shape has the edge, and
// the reason says where.
func TestPlantedFaults(t *testing.T) {
	suitetest.Red(t, matmul.Suite{}, []suitetest.Planted{
		{Name: "single: the tail past whole vectors is dropped",
			Faults: []suitetest.Fault{{File: "mul_mv.metal", Old: "i < p.in_dim; i += 32 * sgs", New: "i < p.in_dim / 128 * 128; i += 32 * sgs"}},
			Filter: "mul_mat type=bf16 m=127 n=1 k=7$", Reason: "worst at"},
		{Name: "gemm: the last step is dropped",
			Faults: []suitetest.Fault{{File: "mul_mm.metal", Old: "k < p.in_dim; k += STEP", New: "k + STEP < p.in_dim; k += STEP"}},
			Filter: "mul_mat type=q8_0 m=65 n=15 k=96$", Reason: "mul_mat q8_0 gemm"},
		{Name: "multi: four bits of a block change places",
			Faults: []suitetest.Fault{{File: "common.h", Old: "q[2 * i + 8] = float((v >> 4) & 15);", New: "q[2 * i + 8] = float((v >> 8) & 15);"}},
			Filter: "mul_mat type=q4_1 m=896 n=2 k=64$", Reason: "mul_mat q4_1 multi"},
		{Name: "single: the bias is added to the wrong row",
			Faults: []suitetest.Fault{{File: "mul_mv.metal", Old: "sum + bias[row]", New: "sum + bias[at.first]"}},
			Filter: "mul_mat type=q5_0 m=65 n=1 k=896 bias=true$", Reason: "mul_mat q5_0 single"},
		{Name: "gemm: a write past the last row",
			Faults: []suitetest.Fault{{File: "mul_mm.metal", Old: "if (row < p.out_dim) {", New: "if (row <= p.out_dim) {"}},
			Filter: "mul_mat type=f32 m=63 n=9 k=33$", Reason: "out-of-bounds"},
		{Name: "multi: an offset of 7.999 instead of 8",
			Faults: []suitetest.Fault{{File: "common.h", Old: "    d[0] = d[1] = float(b.d);\n    m[0] = m[1] = -8.0f * d[0];", New: "    d[0] = d[1] = float(b.d);\n    m[0] = m[1] = -7.999f * d[0];"}},
			Filter: "mul_mat type=q4_0 m=(7|127) n=2 k=(32|896)( |$)", Reason: "tolerance"},
		{Name: "single: outputs past 16384 wrap",
			Faults: []suitetest.Fault{{File: "mul_mv.metal", Old: "few ? group : group * rows;", New: "few ? group : (group & 4095) * rows;"}},
			Filter: "mul_mat type=q8_0 m=16411 ", Reason: "unwritten-output"},
		{Name: "single: the last block past whole chunks is dropped",
			Faults: []suitetest.Fault{{File: "mul_mv.metal", Old: "c < (blocks + 7) / 8", New: "c < blocks / 8"}},
			Filter: "mul_mat type=q(4_1|5_0|5_1) m=9 n=1 k=288$", Reason: "single"},
		{Name: "few: the last pair of blocks past whole steps is dropped",
			Faults: []suitetest.Fault{{File: "mul_mv.metal", Old: "c < (pairs + 7) / 8", New: "c < pairs / 8"}},
			Filter: "mul_mat type=q4_0 m=11 n=1 k=1088$", Reason: "few"},
		{Name: "multi: tokens past 128 are left out",
			Faults: []suitetest.Fault{{File: "mul_mat.metal", Old: "t0 < p.tokens; t0 += 8", New: "t0 < min(p.tokens, 128u); t0 += 8"}},
			Filter: "mul_mat type=q8_0 m=3 n=289 ", Reason: "unwritten-output"},
		{Name: "gemm: tokens past 128 wrap",
			Faults: []suitetest.Fault{{File: "mul_mm.metal", Old: "token0 = group.y * TOKENS;", New: "token0 = (group.y & 3) * TOKENS;"}},
			Filter: "mul_mat type=(f32|q8_0) m=9 n=289 ", Reason: ""},
		{Name: "gemm: outputs past 8192 wrap",
			Faults: []suitetest.Fault{{File: "mul_mm.metal", Old: "row0 = group.x * ROWS,", New: "row0 = (group.x & 127) * ROWS,"}},
			Filter: "mul_mat type=(f32|q8_0) m=8257 ", Reason: ""},
	})
}
