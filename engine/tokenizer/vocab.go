package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"minfer/engine/gguf"
)

// Token types as GGUF files number them.
const (
	typeUndefined = iota
	typeNormal
	typeUnknown
	typeControl
	typeUserDefined
	typeUnused
	typeByte
)

var typeAttrs = [...]attr{
	typeUndefined:   0,
	typeNormal:      attrNormal,
	typeUnknown:     attrUnknown,
	typeControl:     attrControl,
	typeUserDefined: attrUserDefined,
	typeUnused:      attrUnused,
	typeByte:        attrByte,
}

// defaultBOS and defaultEOS are what llama.cpp assumes of a BPE vocabulary whose
// file doesn't say.
const (
	defaultBOS = 11
	defaultEOS = 11
)

// New reads and checks the vocabulary of a GGUF file. An error is one line that
// names the file, the key, what was found and what was expected. It refuses what
// llama.cpp would work around with a warning (ids out of range) or would not
// notice (merges of tokens that do not exist, merges given twice).
func New(f *gguf.File) (*Tokenizer, error) {
	t := &Tokenizer{}
	if err := t.load(metadata(f.KVs)); err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", f.Path, err)
	}
	return t, nil
}

func (t *Tokenizer) load(m metadata) error {
	model, ok, err := getString(m, "tokenizer.ggml.model")
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("key tokenizer.ggml.model is missing: want \"gpt2\"")
	}
	if model != "gpt2" {
		return fmt.Errorf("tokenizer.ggml.model %q is not supported: want \"gpt2\"", model)
	}
	pre, _, err := getString(m, "tokenizer.ggml.pre")
	if err != nil {
		return err
	}
	if t.pre, err = preTokenizerOf(pre); err != nil {
		return fmt.Errorf("tokenizer.ggml.pre: %w", err)
	}
	t.ignoreMerges = t.pre.ignoreMerges
	for _, step := range []func(metadata) error{t.loadTokens, t.loadTypes, t.loadMerges, t.loadSpecial} {
		if err := step(m); err != nil {
			return err
		}
	}
	return nil
}

// loadTokens reads the texts.
func (t *Tokenizer) loadTokens(m metadata) error {
	const key = "tokenizer.ggml.tokens"
	tokens, err := getStrings(m, key)
	if err != nil {
		return err
	}
	if len(tokens) == 0 || len(tokens) > math.MaxInt32 {
		return fmt.Errorf("%s has %d tokens: want 1 to %d", key, len(tokens), math.MaxInt32)
	}
	if v, ok := m.lookup("tokenizer.ggml.scores"); ok {
		if n, ok := length(v); !ok || n != len(tokens) {
			return fmt.Errorf("tokenizer.ggml.scores is %s: want %d numbers, one a token", describe(v), len(tokens))
		}
	}
	t.text = tokens
	for i, s := range tokens {
		if s == "" {
			if &t.text[0] == &tokens[0] { // which are the file's
				t.text = slices.Clone(tokens)
			}
			t.text[i] = "[EMPTY_" + strconv.Itoa(i) + "]" // as llama.cpp names it
		}
	}
	t.texts = newTexts(t.text)
	for i := range t.text {
		if old, dup := t.texts.add(int32(i)); dup {
			return fmt.Errorf("%s: token %d is %q, as token %d is: want distinct texts", key, i, t.text[i], old)
		}
	}
	for c, r := range byteLetters {
		t.bytes[c] = -1
		if id, ok := t.texts.find(string(r)); ok {
			t.bytes[c] = id
		}
	}
	return nil
}

// loadTypes reads the tokens' types; without them all tokens are normal.
func (t *Tokenizer) loadTypes(m metadata) error {
	const key = "tokenizer.ggml.token_type"
	t.attr = make([]attr, len(t.text))
	v, ok := m.lookup(key)
	if !ok {
		for i := range t.attr {
			t.attr[i] = attrNormal
		}
		return nil
	}
	types, isInts := v.([]int32)
	if !isInts || len(types) != len(t.text) {
		return fmt.Errorf("%s is %s: want %d values of type []int32, one a token", key, describe(v), len(t.text))
	}
	for i, typ := range types {
		if typ < 0 || int(typ) >= len(typeAttrs) {
			return fmt.Errorf("%s: token %d has type %d: want 0 to %d", key, i, typ, len(typeAttrs)-1)
		}
		t.attr[i] = typeAttrs[typ]
		if typ == typeByte {
			if _, err := byteToken(t.text[i]); err != nil {
				return fmt.Errorf("%s: token %d: %w", key, i, err)
			}
		}
	}
	return nil
}

// byteToken reads the text of a token of type byte.
func byteToken(s string) (byte, error) {
	hex, ok := strings.CutPrefix(s, "<0x")
	hex, end := strings.CutSuffix(hex, ">")
	c, err := strconv.ParseUint(hex, 16, 8)
	if !ok || !end || len(hex) != 2 || err != nil {
		return 0, fmt.Errorf("a token of type byte has the text %q: want <0x00> to <0xFF>", s)
	}
	return byte(c), nil
}

// loadMerges reads the merges, each two tokens with one space between them.
func (t *Tokenizer) loadMerges(m metadata) error {
	const key = "tokenizer.ggml.merges"
	merges, err := getStrings(m, key)
	if err != nil {
		return err
	}
	if len(merges) > math.MaxInt32 {
		return fmt.Errorf("%s has %d merges: want at most %d", key, len(merges), math.MaxInt32)
	}
	// Finding three texts a merge waits for memory, so all processors do it.
	list := make([]merge, len(merges))
	parts := min(runtime.GOMAXPROCS(0), len(merges)/minMerges+1)
	start := func(part int) int { return part * len(merges) / parts }
	ends, errs := make([]int, parts), make([]error, parts)
	var wg sync.WaitGroup
	for i := range parts {
		resolve := func() {
			var err error
			if ends[i], err = t.resolve(list, merges, start(i), start(i+1)); err != nil {
				errs[i] = fmt.Errorf("%s: merge %d is %q: %w", key, ends[i], merges[ends[i]], err)
			}
		}
		if i < parts-1 {
			wg.Go(resolve)
		} else {
			resolve()
		}
	}
	wg.Wait()
	t.merges = newMerges(list)
	for i, end := range ends {
		for rank := start(i); rank < end; rank++ {
			if old, dup := t.merges.add(rank); dup {
				return fmt.Errorf("%s: merge %d is %q, as merge %d is: want distinct merges", key, rank, merges[rank], old)
			}
		}
		if errs[i] != nil { // of the first merge that is wrong
			return errs[i]
		}
	}
	return nil
}

// minMerges are enough to be worth a goroutine.
const minMerges = 1 << 12

// resolve finds the tokens of merges lo to hi-1, and says how far it came.
func (t *Tokenizer) resolve(list []merge, merges []string, lo, hi int) (end int, err error) {
	next := int32(0)    // the token after the last merge's, which is mostly what the merge makes
	var joined [64]byte // space for the text that a merge makes
	for i := lo; i < hi; i++ {
		s := merges[i]
		// A space can be the first letter of a token, so the search begins after it.
		at := -1
		if len(s) > 1 {
			at = strings.IndexByte(s[1:], ' ') + 1
		}
		if at < 1 || at == len(s)-1 {
			return i, errors.New("want two tokens with a space between them")
		}
		left, right := s[:at], s[at+1:]
		a, ok := t.texts.find(left)
		if !ok {
			return i, fmt.Errorf("%q is not a token", left)
		}
		b, ok := t.texts.find(right)
		if !ok {
			return i, fmt.Errorf("%q is not a token", right)
		}
		made := next
		if !t.is(made, left, right) {
			if made, ok = t.texts.findBytes(append(append(joined[:0], left...), right...)); !ok {
				return i, fmt.Errorf("%q is not a token", left+right)
			}
		}
		next = made + 1
		list[i] = merge{pairOf(a, b), made}
	}
	return hi, nil
}

// is reports whether the text of a token is that of two, one after the other.
func (t *Tokenizer) is(id int32, left, right string) bool {
	if !t.known(id) {
		return false
	}
	s := t.text[id]
	return len(s) == len(left)+len(right) && s[:len(left)] == left && s[len(left):] == right
}

// loadSpecial reads the ids of tokens with a role and what follows from them.
func (t *Tokenizer) loadSpecial(m metadata) error {
	if v, ok := m.lookup("tokenizer.ggml.suppress_tokens"); ok {
		if n, isList := length(v); !isList || n != 0 {
			return fmt.Errorf("tokenizer.ggml.suppress_tokens is %s: not supported, want none", describe(v))
		}
	}
	orNone := func(id int32) int32 {
		if int(id) < len(t.text) {
			return id
		}
		return -1
	}
	t.bos, t.eos = orNone(defaultBOS), orNone(defaultEOS)
	unk, sep, pad, mask := int32(-1), int32(-1), int32(-1), int32(-1)
	n := named{-1, -1, -1, -1, -1, -1, -1, -1}
	for _, r := range []struct {
		key string
		id  *int32
	}{
		{"bos", &t.bos}, {"eos", &t.eos}, {"eot", &n.eot}, {"eom", &n.eom},
		{"unknown", &unk}, {"seperator", &sep}, {"padding", &pad}, {"mask", &mask}, // the key is spelt so
		{"fim_pre", &n.fimPre}, {"fim_suf", &n.fimSuf}, {"fim_mid", &n.fimMid},
		{"fim_pad", &n.fimPad}, {"fim_rep", &n.fimRep}, {"fim_sep", &n.fimSep},
		{"prefix", &n.fimPre}, {"suffix", &n.fimSuf}, {"middle", &n.fimMid}, // older names
	} {
		if err := getID(m, "tokenizer.ggml."+r.key+"_token_id", len(t.text), r.id); err != nil {
			return err
		}
	}
	t.addBOS = t.pre.addBOS
	addSep := false
	for _, r := range []struct {
		key string
		add *bool
		id  int32
	}{{"bos", &t.addBOS, t.bos}, {"eos", &t.addEOS, t.eos}, {"sep", &addSep, sep}} {
		key := "tokenizer.ggml.add_" + r.key + "_token"
		if v, ok := m.lookup(key); ok {
			b, isBool := v.(bool)
			if !isBool {
				return fmt.Errorf("%s is %s: want a bool", key, describe(v))
			}
			*r.add = b
		}
		if *r.add && r.id < 0 {
			return fmt.Errorf("%s is true and the vocabulary has no %s token", key, strings.ToUpper(r.key))
		}
	}
	t.classify(n)
	t.listSpecial()
	name, _, err := getString(m, "general.name")
	if err != nil {
		return err
	}
	if missing := t.stripByName(name); missing != "" {
		return fmt.Errorf("general.name is %q: such a vocabulary has a token %q, this one doesn't", name, missing)
	}
	return nil
}
