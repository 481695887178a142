package graph

import "fmt"

// Op is the operation of a node.
type Op uint8

// The vocabulary. Go names are the graph's, printed names are ggml's; both live
// in the one table below.
const (
	Input Op = iota
	GetRows
	Add
	Mul
	Silu
	SwiGLU
	RmsNorm
	QkNorm
	MatMul
	RoPE
	KvcacheStore
	KvcacheLoad
	Attn
	Scale
	Softmax
	BatchMatMul
	View
	Reshape
	Permute
	FusedQKV
	FusedQkvNorm
	FusedFFN
	QkvBiasRopeStore
	numOps
)

var ops = [numOps]struct {
	goName, name string
}{
	Input:            {"Input", "input"},
	GetRows:          {"GetRows", "get_rows"},
	Add:              {"Add", "add"},
	Mul:              {"Mul", "mul"},
	Silu:             {"Silu", "silu"},
	SwiGLU:           {"SwiGLU", "swiglu"},
	RmsNorm:          {"RmsNorm", "rms_norm"},
	QkNorm:           {"QkNorm", "qk_norm"},
	MatMul:           {"MatMul", "mul_mat"},
	RoPE:             {"RoPE", "rope"},
	KvcacheStore:     {"KvcacheStore", "kv_store"},
	KvcacheLoad:      {"KvcacheLoad", "kv_load"},
	Attn:             {"Attn", "attention"},
	Scale:            {"Scale", "scale"},
	Softmax:          {"Softmax", "soft_max"},
	BatchMatMul:      {"BatchMatMul", "batch_mul_mat"},
	View:             {"View", "view"},
	Reshape:          {"Reshape", "reshape"},
	Permute:          {"Permute", "permute"},
	FusedQKV:         {"FusedQKV", "fused_qkv"},
	FusedQkvNorm:     {"FusedQkvNorm", "fused_qkv_norm"},
	FusedFFN:         {"FusedFFN", "fused_ffn"},
	QkvBiasRopeStore: {"QkvBiasRopeStore", "qkv_bias_rope_store"},
}

// String is the printed name: ggml's spelling, as in case lines and reports.
func (op Op) String() string {
	if op < numOps {
		return ops[op].name
	}
	return fmt.Sprintf("op(%d)", uint8(op))
}

// GoName is the name that the code uses.
func (op Op) GoName() string {
	if op < numOps {
		return ops[op].goName
	}
	return op.String()
}

// ParseOp reads a printed name.
func ParseOp(name string) (Op, error) {
	for op := range numOps {
		if ops[op].name == name {
			return op, nil
		}
	}
	return 0, fmt.Errorf("unknown op %q", name)
}
