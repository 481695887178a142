package model

import (
	"fmt"

	"minfer/engine/graph"
)

// Build emits the graph of one forward pass of p.NTokens tokens, whose inputs
// are "inp_tokens" and "inp_pos" (I32, one value per token) and whose output
// holds the logits of the last p.NOut tokens.
func (m *Model) Build(p graph.Params) (*graph.Graph, error) {
	return nil, fmt.Errorf("build %d tokens: no layers", p.NTokens)
}
