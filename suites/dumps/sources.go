package dumps

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"minfer/engine/gguf"
	"minfer/engine/quant"
	"minfer/engine/synth"
	"minfer/engine/tokenizer"
	"minfer/suites"
)

// source is where a run's model comes from: a file, or options of engine/synth.
type source struct {
	name  string
	model *suites.Model
	synth *synth.Options
}

// synthetic are the graphs that no small trained model has: llama's rotation of
// neighbours, with and without frequency factors, and both kinds of rope
// scaling.
func synthetic() []source {
	yes, no := true, false
	list := []source{
		{name: "synth-llama", synth: &synth.Options{Arch: "llama", Size: "tiny", Seed: 1, RopeFactors: &no}},
		{name: "synth-llama-freqs", synth: &synth.Options{Arch: "llama", Size: "tiny", Seed: 2, RopeFactors: &yes}},
		{name: "synth-qwen2-linear", synth: &synth.Options{Arch: "qwen2", Size: "tiny", Seed: 3, RopeScaling: "linear", RopeFactor: 4, RopeNCtxOrig: 512}},
		{name: "synth-qwen3-yarn", synth: &synth.Options{Arch: "qwen3", Size: "tiny", Seed: 4, RopeScaling: "yarn", RopeFactor: 4, RopeNCtxOrig: 512}},
	}
	for _, s := range list {
		s.synth.Mix = f16
	}
	return list
}

// f16 keeps all that a quantiser needs.
var f16 = quant.Mix{Name: "f16", FileType: 1, Type: gguf.F16}

// runs lists the cases: the given file as it is, or every weight type of the
// embedded models and of the synthetic ones.
func runs(env *suites.Env) []run {
	var list []run
	add := func(s source, weights string) {
		list = append(list, run{s, weights, gguf.F32}, run{s, weights, gguf.F16})
	}
	for _, m := range env.Models {
		s := source{name: m.Name, model: &m}
		if m.Path != "" {
			add(s, "")
			continue
		}
		for _, mix := range mixes() {
			add(s, mix)
		}
	}
	if len(list) > 0 && list[0].weights == "" {
		return list
	}
	for _, s := range synthetic() {
		weights := []string{"f16", "q4_0"}
		if s.synth.RopeScaling == "" {
			weights = mixes()
		}
		for _, mix := range weights {
			add(s, mix)
		}
	}
	return list
}

// open gives the source as a model; a synthetic one is written to env.Temp at
// the first call.
func (s source) open(env *suites.Env) (suites.Model, error) {
	if s.synth == nil {
		return *s.model, nil
	}
	path := filepath.Join(env.Temp, s.name+".gguf")
	if _, err := os.Stat(path); err != nil {
		if _, err := synth.Write(path, *s.synth); err != nil {
			return suites.Model{}, err
		}
	}
	return suites.Model{Name: s.name, Path: path}, nil
}

// text is what every model with words reads. Its length in tokens is more than
// any run asks for.
const text = `And it came to pass in those days, that there went out a decree from the king, ` +
	`that all the world should be numbered; and all went to be numbered, every one into his own city. ` +
	`What say you to this, my lord? I have heard the cry of the people, and their sorrow is great upon the land.`

// prompt is the first n tokens of the text.
func (s source) prompt(f *gguf.File, n int) ([]int32, error) {
	t, err := tokenizer.New(f)
	if err != nil {
		return nil, err
	}
	ids := t.Encode(text, tokenizer.Options{})
	if len(ids) < n {
		return nil, fmt.Errorf("the prompt has %d tokens in this vocabulary, want at least %d", len(ids), n)
	}
	return ids[:n], nil
}

func fileHash(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
