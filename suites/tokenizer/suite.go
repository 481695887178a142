package tokenizer

import (
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"minfer/engine/gguf"
	"minfer/engine/tokenizer"
	"minfer/harness"
	"minfer/refs/llamacpp"
	"minfer/suites"
)

// Suite is the suite `tokenizer`.
type Suite struct{}

// Name is "tokenizer".
func (Suite) Name() string { return "tokenizer" }

// groupSize is the number of texts that share a recorded hash: small enough that
// a difference is found by reading.
const groupSize = 64

//go:embed golden.json
var goldenFile []byte

// golden holds, by case, the hash of llama.cpp's ids for each group of texts,
// with the default seed.
type golden map[string][]string

// goldenSeed is the seed that golden.json is recorded with.
const goldenSeed = 1

// vocabulary is one file to tokenise with.
type vocabulary struct {
	name string
	path func(env *suites.Env) (string, error)
}

// run is one vocabulary with one setting of Options.
type run struct {
	vocab vocabulary
	o     tokenizer.Options
}

func (r run) id() harness.ID {
	return harness.ID{Suite: "tokenizer", Op: "encode", Params: []harness.Param{harness.P("vocab", r.vocab.name),
		harness.P("add_special", r.o.AddSpecial), harness.P("parse_special", r.o.ParseSpecial)}}
}

// runs lists the cases: the models' own vocabularies, a synthetic one for each
// pre-tokenizer, and the one of --hf-vocab.
func runs(env *suites.Env) []run {
	var vocabs []vocabulary
	for _, m := range env.Models {
		vocabs = append(vocabs, vocabulary{m.Name, func(env *suites.Env) (string, error) { return env.ModelFile(m, "") }})
	}
	for _, pre := range PreTokenizers {
		vocabs = append(vocabs, vocabulary{"synthetic-" + pre, func(env *suites.Env) (string, error) {
			return write(env, "synthetic-"+pre, func() (gguf.Model, error) { return SyntheticVocab(pre) })
		}})
	}
	if env.HFVocab != "" {
		vocabs = append(vocabs, vocabulary{"hf", func(env *suites.Env) (string, error) {
			return write(env, "hf", func() (gguf.Model, error) { return FromHF(env.HFVocab) })
		}})
	}
	var list []run
	for _, v := range vocabs {
		for _, add := range []bool{false, true} {
			for _, parse := range []bool{false, true} {
				list = append(list, run{v, tokenizer.Options{AddSpecial: add, ParseSpecial: parse}})
			}
		}
	}
	return list
}

// write puts a vocabulary into a file of env.Temp.
func write(env *suites.Env, name string, build func() (gguf.Model, error)) (string, error) {
	path := filepath.Join(env.Temp, "vocab-"+name+".gguf")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	m, err := build()
	if err != nil {
		return "", err
	}
	_, err = gguf.Write(path, m, gguf.WriteOptions{})
	return path, err
}

// Cases lists every vocabulary with and without special tokens added and
// parsed.
func (Suite) Cases(env *suites.Env) ([]harness.Case, error) {
	var known golden
	if err := json.Unmarshal(goldenFile, &known); err != nil {
		return nil, fmt.Errorf("tokenizer: golden.json: %w", err)
	}
	var cases []harness.Case
	for _, r := range runs(env) {
		id := r.id()
		cases = append(cases, harness.Case{ID: id, Work: 1, Run: func(ctx context.Context) (harness.Result, error) {
			return r.verify(ctx, env, known[id.String()])
		}})
	}
	return cases, nil
}

func (r run) verify(ctx context.Context, env *suites.Env, hashes []string) (harness.Result, error) {
	path, err := r.vocab.path(env)
	if err != nil {
		return harness.Result{}, err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return harness.Result{}, err
	}
	defer f.Close()
	t, err := tokenizer.New(f)
	if err != nil {
		return harness.Result{}, err
	}
	var live *llamacpp.Model
	switch {
	case env.Oracle != nil:
		if live, err = env.Oracle.LoadModel(path, llamacpp.ModelOptions{VocabOnly: true}); err != nil {
			return harness.Result{}, err
		}
		defer live.Close()
	case hashes == nil || env.Seed != goldenSeed:
		return harness.Refused("no recorded ids for this vocabulary and seed; a live comparison needs --llama"), nil
	}
	texts := Strings(env.Seed)
	decoded, differing := 0, 0
	var res harness.Result
	fail := func(format string, args ...any) {
		differing++
		if line := fmt.Sprintf(format, args...); res.Reason == "" {
			res = harness.Failed("%s", line)
		} else if len(res.Details) < 8 {
			res.Details = append(res.Details, line)
		}
	}
	if groups := (len(texts) + groupSize - 1) / groupSize; live == nil && len(hashes) != groups {
		fail("%d groups of texts are recorded: want %d", len(hashes), groups)
	}
	for start := 0; start < len(texts); start += groupSize {
		if err := ctx.Err(); err != nil {
			return harness.Result{}, err
		}
		part := texts[start:min(start+groupSize, len(texts))]
		got := make([][]int32, len(part))
		for i, text := range part {
			got[i] = t.Encode(text, r.o)
			if live != nil {
				want, err := live.Tokenize(text, r.o.AddSpecial, r.o.ParseSpecial)
				if err != nil {
					return harness.Result{}, err
				}
				if !slices.Equal(got[i], want) {
					fail("text %d, %q: ids %v, llama.cpp's are %v", start+i, text, got[i], want)
				}
			}
			if !r.o.AddSpecial && utf8.ValidString(text) {
				decoded++
				if back := t.Decode(got[i]); string(back) != text {
					fail("text %d, %q: its ids %v decode to %q", start+i, text, got[i], back)
				}
			}
		}
		if live == nil {
			if i := start / groupSize; i < len(hashes) && hashes[i] != hash(got) {
				fail("texts %d to %d: other ids than llama.cpp's", start, start+len(part)-1)
			}
		}
	}
	res.Counts = []harness.Count{{Name: "texts", N: int64(len(texts))}, {Name: "differing", N: int64(differing)}, {Name: "decoded back", N: int64(decoded)}}
	return res, nil
}

// hash is the hash of several lists of ids.
func hash(lists [][]int32) string {
	h := fnv.New64a()
	for _, ids := range lists {
		binary.Write(h, binary.LittleEndian, int32(len(ids)))
		binary.Write(h, binary.LittleEndian, ids)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// Record asks llama.cpp for every case and writes the golden file, if it
// changed.
func Record(ctx context.Context, env *suites.Env, path string, progress func(file string, changed bool)) error {
	env.Seed = goldenSeed
	all := golden{}
	for _, r := range runs(env) {
		if err := ctx.Err(); err != nil {
			return err
		}
		hashes, err := r.record(env)
		if err != nil {
			return fmt.Errorf("%s: %w", r.id(), err)
		}
		all[r.id().String()] = hashes
	}
	changed, err := suites.WriteGolden(path, all)
	if err == nil {
		progress(path, changed)
	}
	return err
}

func (r run) record(env *suites.Env) ([]string, error) {
	path, err := r.vocab.path(env)
	if err != nil {
		return nil, err
	}
	live, err := env.Oracle.LoadModel(path, llamacpp.ModelOptions{VocabOnly: true})
	if err != nil {
		return nil, err
	}
	defer live.Close()
	texts := Strings(env.Seed)
	var hashes []string
	for start := 0; start < len(texts); start += groupSize {
		var lists [][]int32
		for _, text := range texts[start:min(start+groupSize, len(texts))] {
			ids, err := live.Tokenize(text, r.o.AddSpecial, r.o.ParseSpecial)
			if err != nil {
				return nil, err
			}
			lists = append(lists, ids)
		}
		hashes = append(hashes, hash(lists))
	}
	return hashes, nil
}
