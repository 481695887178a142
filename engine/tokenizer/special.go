package tokenizer

import "strings"

// attr is what a token is, as a set: llama.cpp adds control to tokens that it
// knows by their text, whatever their type in the file is.
type attr uint8

const (
	attrUnknown attr = 1 << iota
	attrUnused
	attrNormal
	attrControl
	attrUserDefined
	attrByte
	attrLStrip // white space to the left of the token in the text belongs to it
	attrRStrip // the same to the right
)

// The texts by which llama.cpp v0.4.0 knows tokens that the metadata doesn't
// name. The first group of each that the vocabulary has is the token.
var (
	eotTexts = []string{
		"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
		"<EOT>", "_<EOT>", "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>",
	}
	eomTexts    = []string{"<|eom_id|>"}
	fimPreTexts = []string{
		"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>", "<|prefix|>",
	}
	fimSufTexts = []string{
		"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>", "<|suffix|>",
	}
	fimMidTexts = []string{
		"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>",
	}
	fimPadTexts = []string{"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}
	fimRepTexts = []string{"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}
	fimSepTexts = []string{"<|file_sep|>"}

	eogTexts = []string{
		"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
		"<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>",
		"<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~[",
	}
	shownTexts = []string{"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"}
)

// named are the ids that the metadata gives to the roles of tokens, -1 where it
// doesn't.
type named struct {
	eot, eom, fimPre, fimSuf, fimMid, fimPad, fimRep, fimSep int32
}

// classify finds the tokens that the metadata doesn't name, the tokens that end
// generation, and the attributes that follow from either.
func (t *Tokenizer) classify(n named) {
	// Where a vocabulary has several of the texts of one role, llama.cpp takes the
	// one that its hash table lists first; here it is the one of the lowest id.
	find := func(id *int32, texts []string) {
		if *id >= 0 {
			return
		}
		for _, s := range texts {
			if at, ok := t.texts.find(s); ok && (*id < 0 || at < *id) {
				*id = at
			}
		}
		if *id >= 0 {
			t.attr[*id] |= attrControl
		}
	}
	find(&n.eot, eotTexts)
	find(&n.eom, eomTexts)
	find(&n.fimPre, fimPreTexts)
	find(&n.fimSuf, fimSufTexts)
	find(&n.fimMid, fimMidTexts)
	find(&n.fimPad, fimPadTexts)
	find(&n.fimRep, fimRepTexts)
	find(&n.fimSep, fimSepTexts)

	t.eog = map[int32]bool{}
	for _, id := range []int32{n.fimPad, n.fimRep, n.fimSep, t.eos, n.eot, n.eom} {
		if id >= 0 {
			t.eog[id] = true
		}
	}
	for _, s := range eogTexts {
		if id, ok := t.texts.find(s); ok {
			t.eog[id] = true
			t.attr[id] |= attrControl
		}
	}
	for _, s := range shownTexts {
		if id, ok := t.texts.find(s); ok {
			t.attr[id] = attrUserDefined
		}
	}
	t.exempt()
}

// exempt takes two tokens out again, in the vocabularies where they do not end
// generation: <|end|> beside the calls of the harmony and Solar formats, </s>
// beside Gemma's tool responses.
func (t *Tokenizer) exempt() {
	ends := func(s string) bool {
		id, ok := t.texts.find(s)
		return ok && t.eog[id]
	}
	set := func(s string, a attr) {
		id, _ := t.texts.find(s)
		delete(t.eog, id)
		t.attr[id] = a
	}
	call := ends("<|call|>") || ends("<|calls|>")
	if ends("<|end|>") && call && (ends("<|return|>") || ends("<|flush|>")) {
		set("<|end|>", attrUserDefined)
	}
	if ends("</s>") && ends("<|tool_response>") {
		set("</s>", attrNormal)
	}
}

// listSpecial sets the order in which texts are searched for special tokens: the
// longest first.
func (t *Tokenizer) listSpecial() {
	for id, a := range t.attr {
		if a&(attrControl|attrUserDefined|attrUnknown) != 0 {
			t.special = append(t.special, int32(id))
		}
	}
	introsort(t.special, func(a, b int32) bool { return len(t.text[a]) > len(t.text[b]) })
}

// A fragment is a special token, or the text [start, end) between two.
type fragment struct {
	token      int32 // -1 for text
	start, end int
}

// partition cuts the text at its special tokens. Each token in turn is looked
// for in all that the tokens before it have left.
func (t *Tokenizer) partition(text string, parse bool) []fragment {
	if text == "" {
		return nil
	}
	frags := []fragment{{-1, 0, len(text)}}
	for _, id := range t.special {
		a, s := t.attr[id], t.text[id]
		if !parse && a&(attrControl|attrUnknown) != 0 || !strings.Contains(text, s) {
			continue
		}
		var next []fragment
		for _, f := range frags {
			if f.token >= 0 {
				next = append(next, f)
				continue
			}
			next = cut(next, text, f, id, s, a)
		}
		frags = next
	}
	return frags
}

// cut appends the parts of one text fragment between the places where s is.
func cut(out []fragment, text string, f fragment, id int32, s string, a attr) []fragment {
	for f.start < f.end {
		i := strings.Index(text[f.start:f.end], s)
		if i < 0 {
			return append(out, f)
		}
		left := fragment{-1, f.start, f.start + i}
		f.start += i + len(s)
		for a&attrLStrip != 0 && left.end > left.start && isSpaceByte(text[left.end-1]) {
			left.end--
		}
		if left.end > left.start {
			out = append(out, left)
		}
		out = append(out, fragment{token: id})
		for a&attrRStrip != 0 && f.start < f.end && isSpaceByte(text[f.start]) {
			f.start++
		}
	}
	return out
}

func isSpaceByte(c byte) bool { return c == ' ' || 0x09 <= c && c <= 0x0d }

// stripByName applies the attributes that llama.cpp gives by the model's name,
// since no key of the file has them. It returns the text of a token that the
// name asks for and the vocabulary lacks.
func (t *Tokenizer) stripByName(name string) (missing string) {
	name = strings.ToLower(name)
	switch {
	case strings.Contains(name, "phi-3"), strings.Contains(name, "phi3"):
		var ids []int32
		for _, s := range []string{"<unk>", "<s>", "<|endoftext|>", "</s>"} {
			id, ok := t.texts.find(s)
			if !ok {
				return s
			}
			ids = append(ids, id)
		}
		for _, id := range append(t.special[:len(t.special):len(t.special)], ids[3]) {
			t.attr[id] |= attrRStrip
		}
		for _, id := range ids[:3] {
			t.attr[id] &^= attrRStrip
		}
	case strings.Contains(name, "modern-bert"):
		if id, ok := t.texts.find("[MASK]"); ok {
			t.attr[id] |= attrLStrip
		}
	}
	return ""
}
