package greedy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"minfer/harness"
)

// gateFile is a golden file: continuations by device, model and cache type. It is
// JSON, written with one step a line, so that a diff shows the first that differs.
type gateFile struct {
	Tokens int        `json:"tokens"` // of each continuation, at most
	Runs   []*gateRun `json:"runs"`
}

// gateRun is what one model generated on one device. Device, model and cache type
// identify it; the rest says where it comes from.
type gateRun struct {
	Device        string      `json:"device"` // "cpu (avx2)", "soft"
	Model         string      `json:"model"`
	SHA256        string      `json:"sha256"` // of the model's file
	KV            string      `json:"kv"`
	Levers        string      `json:"levers"` // those not at their default
	Date          string      `json:"date"`
	Commit        string      `json:"commit"`
	Continuations []*gateText `json:"continuations"`
}

// gateText is one prompt's continuation.
type gateText struct {
	Prompt string    `json:"prompt"`
	Text   string    `json:"text"` // for the reader: the tokens decide
	Tokens []int32   `json:"tokens"`
	Top    []gateTop `json:"top"` // of each step
}

// gateTop are the five largest logits of a step, largest first.
type gateTop []gateLogit

// gateLogit is [id, logit] with five digits.
type gateLogit struct {
	ID    int32
	Logit float64
}

// MarshalJSON writes a pair.
func (l gateLogit) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "[%d,%s]", l.ID, strconv.FormatFloat(l.Logit, 'g', 5, 64)), nil
}

// UnmarshalJSON reads a pair.
func (l *gateLogit) UnmarshalJSON(data []byte) error {
	var pair []json.Number
	if err := json.Unmarshal(data, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf("found %s, want a token's id and its logit", data)
	}
	id, err := strconv.ParseInt(string(pair[0]), 10, 32)
	if err != nil || id < 0 {
		return fmt.Errorf("found %s, want a token's id first", data)
	}
	l.ID = int32(id)
	l.Logit, err = pair[1].Float64()
	return err
}

// text lists the tokens with their logits.
func (t gateTop) text(token func(int32) string) string {
	var words []string
	for _, l := range t {
		words = append(words, fmt.Sprintf("%s %.5g", token(l.ID), l.Logit))
	}
	return strings.Join(words, ", ")
}

// margin is by how much token a's logit was above token b's.
func (t gateTop) margin(a, b int32) string {
	var la, lb *gateLogit
	for i := range t {
		switch t[i].ID {
		case a:
			la = &t[i]
		case b:
			lb = &t[i]
		}
	}
	switch {
	case la == nil:
		return "none"
	case lb == nil: // it was not among the five
		return fmt.Sprintf("more than %.4g", la.Logit-t[len(t)-1].Logit)
	}
	return fmt.Sprintf("%.4g", la.Logit-lb.Logit)
}

func (r gateRun) key() string { return r.Device + ", " + r.Model + ", kv " + r.KV }

func (r gateRun) same(s gateRun) bool { return r.key() == s.key() }

func (r gateRun) prompts() []string {
	var list []string
	for _, c := range r.Continuations {
		list = append(list, c.Prompt)
	}
	return list
}

// find gives a prompt's continuation, nil for none.
func (r gateRun) find(prompt string) *gateText {
	for _, c := range r.Continuations {
		if c.Prompt == prompt {
			return c
		}
	}
	return nil
}

func (f *gateFile) find(want gateRun) *gateRun {
	for _, r := range f.Runs {
		if r.same(want) {
			return r
		}
	}
	return nil
}

// has lists what the file holds.
func (f *gateFile) has() string {
	var list []string
	for _, r := range f.Runs {
		list = append(list, "("+r.key()+")")
	}
	if list == nil {
		return "nothing"
	}
	return strings.Join(list, ", ")
}

// maxGateTokens bounds a continuation.
const maxGateTokens = 1 << 16

// readGate reads a golden file and checks all that verifying relies on.
func readGate(path string, data []byte) (*gateFile, error) {
	f := &gateFile{}
	if err := harness.DecodeJSON(data, f); err != nil {
		return nil, fmt.Errorf("%s: not a golden file of mverify: %w", path, err)
	}
	if f.Tokens < 1 || f.Tokens > maxGateTokens {
		return nil, fmt.Errorf("%s: tokens: found %d, want 1 to %d", path, f.Tokens, maxGateTokens)
	}
	runs := map[string]bool{}
	for i, r := range f.Runs {
		where := fmt.Sprintf("%s: runs[%d]", path, i)
		if r == nil || len(r.Continuations) == 0 {
			return nil, fmt.Errorf("%s: no continuations", where)
		}
		for _, name := range []string{r.Device, r.Model, r.KV} {
			if strings.ContainsFunc(name, unicode.IsControl) {
				return nil, fmt.Errorf("%s: %q: want a name without control characters", where, name)
			}
		}
		if runs[r.key()] {
			return nil, fmt.Errorf("%s: (%s) is there twice", where, r.key())
		}
		runs[r.key()] = true
		texts := map[string]bool{}
		for j, c := range r.Continuations {
			where := fmt.Sprintf("%s.continuations[%d]", where, j)
			if c == nil || len(c.Tokens) == 0 || len(c.Tokens) > f.Tokens {
				return nil, fmt.Errorf("%s: want 1 to %d tokens", where, f.Tokens)
			}
			if len(c.Top) != len(c.Tokens) {
				return nil, fmt.Errorf("%s: top: found %d steps, want one for each of the %d tokens", where, len(c.Top), len(c.Tokens))
			}
			for k, t := range c.Top {
				if len(t) == 0 || t[0].ID != c.Tokens[k] {
					return nil, fmt.Errorf("%s: top[%d]: want token %d first, as it was chosen", where, k, c.Tokens[k])
				}
			}
			if texts[c.Prompt] {
				return nil, fmt.Errorf("%s: the prompt %q is there twice", where, c.Prompt)
			}
			texts[c.Prompt] = true
		}
	}
	return f, nil
}

// bytes is the file's content.
func (f *gateFile) bytes() []byte {
	var b bytes.Buffer
	value := func(v any) string {
		var s bytes.Buffer
		e := json.NewEncoder(&s)
		e.SetEscapeHTML(false)
		if e.Encode(v) != nil {
			return "null" // cannot happen: strings and whole numbers
		}
		return strings.TrimSpace(s.String())
	}
	fmt.Fprintf(&b, "{\n\"tokens\": %d,\n\"runs\": [", f.Tokens)
	for i, r := range f.Runs {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n{\"device\": %s, \"model\": %s, \"kv\": %s, \"levers\": %s,\n\"sha256\": %s,\n\"date\": %s, \"commit\": %s,\n\"continuations\": [",
			value(r.Device), value(r.Model), value(r.KV), value(r.Levers), value(r.SHA256), value(r.Date), value(r.Commit))
		for j, c := range r.Continuations {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "\n  {\"prompt\": %s,\n   \"text\": %s,\n   \"tokens\": %s,\n   \"top\": [", value(c.Prompt), value(c.Text), value(c.Tokens))
			for k, t := range c.Top {
				if k > 0 {
					b.WriteByte(',')
				}
				fmt.Fprintf(&b, "\n     %s", value(t))
			}
			b.WriteString("]}")
		}
		b.WriteString("]}")
	}
	b.WriteString("]\n}\n")
	return b.Bytes()
}
