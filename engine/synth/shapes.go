package synth

import (
	"fmt"
	"strings"

	"minfer/engine/graph"
	"minfer/engine/model"
)

// size is one entry of the table.
type size struct {
	name    string
	factors bool // llama: rope_freqs.weight is in the file
	model.Hparams
}

// of writes a row of the table: widths, then the vocabulary.
func of(name string, embd, layers, heads, headsKV, headDim, ff, vocab int, tied bool) size {
	return size{name: name, Hparams: model.Hparams{
		NEmbd: embd, NLayer: layers, NHead: heads, NHeadKV: headsKV, HeadDimK: headDim, HeadDimV: headDim,
		NFF: ff, NVocab: vocab, Tied: tied,
	}}
}

// The shapes are those of the models that have these names: Qwen2.5, Qwen3 and
// Llama 3.2 (8b: 3.1). The tiny ones are nobody's: wide enough that a row of
// any K-quant holds a block of 256, with everything else small.
var sizes = map[string][]size{
	"qwen2": {
		of("tiny", 256, 2, 4, 2, 64, 512, 1024, true),
		of("0.5b", 896, 24, 14, 2, 64, 4864, 151936, true),
		of("1.5b", 1536, 28, 12, 2, 128, 8960, 151936, true),
		of("3b", 2048, 36, 16, 2, 128, 11008, 151936, true),
		of("7b", 3584, 28, 28, 4, 128, 18944, 152064, false),
	},
	"qwen3": {
		// More head channels than the width, as the real 0.6b and 4b have.
		of("tiny", 256, 2, 4, 2, 128, 512, 1024, true),
		of("0.6b", 1024, 28, 16, 8, 128, 3072, 151936, true),
		of("1.7b", 2048, 28, 16, 8, 128, 6144, 151936, true),
		of("4b", 2560, 36, 32, 8, 128, 9728, 151936, true),
		of("8b", 4096, 36, 32, 8, 128, 12288, 151936, false),
	},
	"llama": {
		of("tiny", 256, 2, 4, 2, 64, 512, 1024, true),
		of("1b", 2048, 16, 32, 8, 64, 8192, 128256, true),
		of("3b", 3072, 28, 24, 8, 128, 8192, 128256, true),
		of("8b", 4096, 32, 32, 8, 128, 14336, 128256, false),
	},
}

// Sizes lists the sizes of an architecture, smallest first; nil for an unknown
// one.
func Sizes(arch string) []string {
	var names []string
	for _, s := range sizes[arch] {
		names = append(names, s.name)
	}
	return names
}

// Shape is what a size stands for.
func Shape(arch, name string) (model.Hparams, error) {
	s, err := lookup(arch, name)
	return s.Hparams, err
}

func lookup(arch, name string) (size, error) {
	if sizes[arch] == nil {
		return size{}, fmt.Errorf("synth: unknown architecture %q: want one of %s", arch, strings.Join(model.Archs(), ", "))
	}
	for _, s := range sizes[arch] {
		if strings.EqualFold(s.name, name) {
			s.Arch = arch
			s.complete()
			return s, nil
		}
	}
	return size{}, fmt.Errorf("synth: unknown size %q of %s: want one of %s", name, arch, strings.Join(Sizes(arch), ", "))
}

// complete fills in what an architecture's sizes have in common.
func (s *size) complete() {
	s.Rope = graph.Rope{NDims: s.HeadDimK}
	switch tiny := s.name == "tiny"; {
	case s.Arch == "llama":
		s.RMSEps, s.Rope.FreqBase, s.NCtxTrain = 1e-5, 500000, 131072
		s.factors = !tiny
		if tiny {
			s.NCtxTrain = 2048
		}
	default:
		s.RMSEps, s.Rope.FreqBase, s.NCtxTrain = 1e-6, 1e6, 32768
		if tiny {
			s.NCtxTrain = 2048
		}
	}
}
