package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"minfer/engine/gguf"
)

// FromHF reads tokenizer.json, and tokenizer_config.json if it is there, from a
// folder as Hugging Face lays it out, and gives the vocabulary as GGUF metadata:
// the tokens and merges, added tokens as control tokens (special) or user-defined
// ones, the pre-tokenizer by its expression, and BOS, EOS and padding. It knows
// byte-level BPE with the expressions of PreTokenizers.
func FromHF(dir string) (gguf.Model, error) {
	path := filepath.Join(dir, "tokenizer.json")
	var tok hfTokenizer
	if err := readJSON(path, &tok); err != nil {
		return gguf.Model{}, err
	}
	var cfg hfConfig
	if err := readJSON(filepath.Join(dir, "tokenizer_config.json"), &cfg); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return gguf.Model{}, err
	}
	m, err := tok.model(cfg)
	if err != nil {
		return gguf.Model{}, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// hfTokenizer is the part of tokenizer.json that is used here.
type hfTokenizer struct {
	AddedTokens []struct {
		ID      int    `json:"id"`
		Content string `json:"content"`
		Special bool   `json:"special"`
	} `json:"added_tokens"`
	PreTokenizer json.RawMessage `json:"pre_tokenizer"`
	Model        struct {
		Type   string         `json:"type"`
		Vocab  map[string]int `json:"vocab"`
		Merges []hfMerge      `json:"merges"`
	} `json:"model"`
}

// hfConfig is the part of tokenizer_config.json that is used here.
type hfConfig struct {
	AddBOS *bool  `json:"add_bos_token"`
	AddEOS *bool  `json:"add_eos_token"`
	BOS    hfText `json:"bos_token"`
	EOS    hfText `json:"eos_token"`
	Pad    hfText `json:"pad_token"`
}

// An hfMerge is written as ["a", "b"] or, in older files, as "a b".
type hfMerge string

func (m *hfMerge) UnmarshalJSON(b []byte) error {
	var pair []string
	if json.Unmarshal(b, &pair) == nil && len(pair) == 2 {
		*m = hfMerge(pair[0] + " " + pair[1])
		return nil
	}
	return json.Unmarshal(b, (*string)(m))
}

// An hfText is a token's text, written as such, as {"content": ...} or as null.
type hfText string

func (t *hfText) UnmarshalJSON(b []byte) error {
	var added struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(b, &added) == nil {
		*t = hfText(added.Content)
		return nil
	}
	return json.Unmarshal(b, (*string)(t))
}

func (tok *hfTokenizer) model(cfg hfConfig) (gguf.Model, error) {
	if tok.Model.Type != "BPE" {
		return gguf.Model{}, fmt.Errorf("model.type is %q: want \"BPE\"", tok.Model.Type)
	}
	pre, err := tok.preTokenizer()
	if err != nil {
		return gguf.Model{}, err
	}
	ids := map[string]int{}
	size := 0
	for text, id := range tok.Model.Vocab {
		ids[text] = id
		size = max(size, id+1)
	}
	for _, a := range tok.AddedTokens {
		ids[a.Content] = a.ID
		size = max(size, a.ID+1)
	}
	if size != len(ids) {
		return gguf.Model{}, fmt.Errorf("%d tokens with ids up to %d: want every id once", len(ids), size-1)
	}
	tokens, types, filled := make([]string, size), make([]int32, size), make([]bool, size)
	for text, id := range ids {
		if id < 0 || filled[id] {
			return gguf.Model{}, fmt.Errorf("token %q has the id %d: want every id from 0 to %d once", text, id, size-1)
		}
		tokens[id], types[id], filled[id] = text, normal, true
	}
	for _, a := range tok.AddedTokens {
		types[a.ID] = userDefined
		if a.Special {
			types[a.ID] = control
		}
	}
	merges := make([]string, len(tok.Model.Merges))
	for i, m := range tok.Model.Merges {
		merges[i] = string(m)
	}

	arch := "llama"
	if pre == "qwen2" {
		arch = "qwen2"
	}
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: arch},
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: pre},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.merges", Value: merges},
	}
	for _, r := range []struct {
		role string
		text hfText
		add  *bool
	}{{"bos", cfg.BOS, cfg.AddBOS}, {"eos", cfg.EOS, cfg.AddEOS}, {"padding", cfg.Pad, nil}} {
		if r.text != "" {
			id, ok := ids[string(r.text)]
			if !ok {
				return gguf.Model{}, fmt.Errorf("tokenizer_config.json names %q as its %s token: no such token", r.text, r.role)
			}
			kvs = append(kvs, gguf.KV{Key: "tokenizer.ggml." + r.role + "_token_id", Value: uint32(id)})
		}
		if r.add != nil {
			kvs = append(kvs, gguf.KV{Key: "tokenizer.ggml.add_" + r.role + "_token", Value: *r.add})
		}
	}
	return gguf.Model{KVs: kvs}, nil
}

// preTokenizer tells which one the file describes.
func (tok *hfTokenizer) preTokenizer() (string, error) {
	var p struct {
		hfSplit
		Pretokenizers []hfSplit `json:"pretokenizers"`
	}
	if len(tok.PreTokenizer) > 0 {
		if err := json.Unmarshal(tok.PreTokenizer, &p); err != nil {
			return "", fmt.Errorf("pre_tokenizer: %w", err)
		}
	}
	steps := p.Pretokenizers
	if len(steps) == 0 {
		steps = []hfSplit{p.hfSplit}
	}
	var shape []string
	for _, s := range steps {
		shape = append(shape, s.name())
	}
	switch s := strings.Join(shape, ", "); s {
	case "Split 1, ByteLevel":
		return "qwen2", nil
	case "Split 3, ByteLevel":
		return "llama-bpe", nil
	case "Digits, ByteLevel regex":
		return "smollm", nil
	case "ByteLevel regex":
		return "gpt-2", nil
	default:
		return "", fmt.Errorf("pre_tokenizer is [%s]: want that of one of %s", s, strings.Join(PreTokenizers, ", "))
	}
}

// An hfSplit is one step of a pre-tokenizer.
type hfSplit struct {
	Type    string `json:"type"`
	Pattern struct {
		Regex string
	} `json:"pattern"`
	Individual bool  `json:"individual_digits"`
	UseRegex   *bool `json:"use_regex"`
	Prefix     bool  `json:"add_prefix_space"`
}

// name gives the step a name that tells the known ones apart.
func (s hfSplit) name() string {
	const clauses = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	switch {
	case s.Type == "Split" && s.Pattern.Regex == fmt.Sprintf(clauses, ""):
		return "Split 1"
	case s.Type == "Split" && s.Pattern.Regex == fmt.Sprintf(clauses, "{1,3}"):
		return "Split 3"
	case s.Type == "Digits" && s.Individual:
		return "Digits"
	case s.Type == "ByteLevel" && !s.Prefix && s.UseRegex != nil && !*s.UseRegex:
		return "ByteLevel"
	case s.Type == "ByteLevel" && !s.Prefix:
		return "ByteLevel regex"
	case s.Type == "Split":
		return fmt.Sprintf("Split %q", s.Pattern.Regex)
	}
	return s.Type
}
