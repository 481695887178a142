package dumps

import (
	"fmt"

	"minfer/engine/graph"
	"minfer/refs/dump"
)

// keys are llama.cpp's names for a value of the engine: none for what llama.cpp
// does not compute, two where it reports one value under two names. The engine
// has nodes that merge several of llama.cpp's; their parts come with a name.
func (c *checker) keys(v graph.TapValue) ([]dump.Key, error) {
	n := v.Node
	key := func(name, op string) []dump.Key { return []dump.Key{{Name: name, Op: op}} }
	switch n.Op {
	case graph.GetRows:
		return c.alsoLayerIn(key(n.Name, "GET_ROWS"), -1), nil
	case graph.RmsNorm, graph.QkNorm:
		if v.Part == "norm" {
			return c.norm(n), nil
		}
		return key(n.Name, "MUL"), nil
	case graph.MatMul:
		if v.Part == "mul_mat" || n.Bias == nil {
			return c.alsoTail(key(n.Name, "MUL_MAT"), n), nil
		}
		return key(n.Name, "ADD"), nil
	case graph.RoPE:
		return key(n.Name, "ROPE"), nil
	case graph.KvcacheStore:
		return key(n.Name, "SET_ROWS"), nil
	case graph.Attn:
		switch v.Part {
		case "kq":
			return key(fmt.Sprintf("kq-%d", n.Layer), "MUL_MAT"), nil
		case "kq_soft_max":
			return key(fmt.Sprintf("kq_soft_max-%d", n.Layer), "SOFT_MAX"), nil
		}
		// kqv holds the heads one after another; kqv_out is the same values,
		// made contiguous.
		return append(key(fmt.Sprintf("kqv-%d", n.Layer), "MUL_MAT"), key(n.Name, "CONT")...), nil
	case graph.Add:
		return c.alsoLayerIn(key(n.Name, "ADD"), n.Layer), nil
	case graph.SwiGLU:
		return key(n.Name, "SWIGLU"), nil
	case graph.View:
		return nil, nil // the same bytes as its input
	}
	return nil, fmt.Errorf("%s %s: no node of llama.cpp stands for it", n.Name, n.Op)
}

// norm is the key of a normalisation before its weight. llama.cpp calls all of
// a layer "norm-il"; they are told apart by their order.
func (c *checker) norm(n *graph.Node) []dump.Key {
	if n.Layer < 0 {
		return []dump.Key{{Name: "norm", Op: "RMS_NORM"}}
	}
	var occ int
	name := fmt.Sprintf("norm-%d", n.Layer)
	switch n.Name {
	case fmt.Sprintf("attn_norm-%d", n.Layer):
		occ = 0
	case fmt.Sprintf("Qcur_normed-%d", n.Layer):
		occ = 1
	case fmt.Sprintf("Kcur_normed-%d", n.Layer):
		occ = 2
	default: // ffn_norm: the second, or the fourth where heads are normalised too
		occ = 1
		if _, ok := c.want.Node(dump.Key{Name: name, Op: "RMS_NORM", Occ: 3}); ok {
			occ = 3
		}
	}
	return []dump.Key{{Name: name, Op: "RMS_NORM", Occ: occ}}
}

// alsoTail adds llama.cpp's selection of output rows in the last layer, which
// copies the attention output of the rows whose logits are wanted: here all.
func (c *checker) alsoTail(keys []dump.Key, n *graph.Node) []dump.Key {
	if n.Name == fmt.Sprintf("attn_out-%d", c.layers-1) {
		keys = append(keys, dump.Key{Name: n.Name, Op: "GET_ROWS"})
	}
	return keys
}

// alsoLayerIn adds the same selection of the last layer's input, which is the
// output of layer il (the embedding for il = -1).
func (c *checker) alsoLayerIn(keys []dump.Key, il int) []dump.Key {
	last := c.layers - 1
	if il == last-1 && (il < 0 || keys[0].Name == fmt.Sprintf("l_out-%d", il)) {
		keys = append(keys, dump.Key{Name: fmt.Sprintf("layer_in-%d", last), Op: "GET_ROWS"})
	}
	return keys
}
