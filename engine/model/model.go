// Package model turns a GGUF file into the graph of its forward pass, for the
// architectures qwen2 (also Qwen2.5), qwen3 and llama.
//
// [Load] reads the hyper-parameters, checks them against each other and
// against the shape and type of every tensor, and names the offender when
// something is missing, impossible or not implemented: a metadata key or a
// tensor that would change the arithmetic is refused, never ignored. Then
// [Model.Build] emits the nodes of one forward pass in the order of section 12
// of docs/numerics.md. [LoadUnread] leaves the values of matrices to a [Proof], which
// the first pass gives by the way, so that a program starts without reading all
// weights first.
//
// The package computes nothing: what a node means is the backend's affair, and
// running a graph is that of engine/graph and engine/session. Weights are
// windows of the mapped file, so the file must stay open while the model is
// used. A Model is read-only after Load and safe for concurrent use. On a GPU,
// [Model.Concatenate] and [Model.Hold] come between.
package model

import (
	"minfer/engine/gguf"
	"minfer/engine/graph"
)

// Hparams are a model's hyper-parameters, checked by Load.
type Hparams struct {
	Arch      string // general.architecture: "qwen2", "qwen3" or "llama"
	NVocab    int    // rows of the embedding table
	NEmbd     int    // width of the residual stream
	NLayer    int    // transformer layers
	NHead     int    // query heads
	NHeadKV   int    // key and value heads; divides NHead
	HeadDimK  int    // channels of a query or key head
	HeadDimV  int    // channels of a value head
	NFF       int    // width of the feed-forward
	NCtxTrain int    // context length that the model was trained for
	RMSEps    float32
	Rope      graph.Rope
	Tied      bool // the output matrix is the embedding table
}

// A Model is a loaded file: hyper-parameters and weights.
type Model struct {
	Hparams

	file   *gguf.File
	embd   *graph.Weight
	norm   *graph.Weight
	output *graph.Weight
	// outputBias is nil but in some qwen2 files.
	outputBias *graph.Weight
	// ropeFactors divide the rotation's angles, one value per pair (llama 3);
	// nil if the file has none.
	ropeFactors *graph.Weight
	layers      []layer
	weights     []*graph.Weight
	matrices    []*graph.Weight // those of weights that are matrices
	concats     []*graph.Weight // see Concatenate
}

// layer holds the weights of one transformer layer; optional ones are nil.
type layer struct {
	attnNorm                   *graph.Weight
	q, k, v, o                 *graph.Weight
	qBias, kBias, vBias, oBias *graph.Weight
	qNorm, kNorm               *graph.Weight
	ffnNorm                    *graph.Weight
	gate, up, down             *graph.Weight
	gateBias, upBias, downBias *graph.Weight
}

// File is the file that the model was loaded from.
func (m *Model) File() *gguf.File { return m.file }

// Weights lists every weight of the file that a graph of this model can read, each
// once, in the order of first use. Concatenations lists what is made of them.
func (m *Model) Weights() []*graph.Weight { return m.weights }

// KWidth and VWidth are the channels of one position's row in the key and the
// value cache of a layer.
func (m *Model) KWidth() int { return m.NHeadKV * m.HeadDimK }

// VWidth is KWidth's twin for values.
func (m *Model) VWidth() int { return m.NHeadKV * m.HeadDimV }
