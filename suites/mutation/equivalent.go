package mutation

import (
	_ "embed"
	"fmt"
	"strings"

	"minfer/harness"
)

// Known is a mutant that no case can notice, and why.
type Known struct {
	File string `json:"file"`
	// Old and New are the lines that differ, without the blanks around them; "..."
	// stands for any number of lines.
	Old []string `json:"old"`
	New []string `json:"new"`
	// Nth says which of the file's lines that read as the first of Old is meant, from
	// 1. It is left out where there is one.
	Nth int `json:"nth,omitempty"`
	// Kernel is a part of the entry point's name where only some are meant.
	Kernel string `json:"kernel,omitempty"`
	// Why says what makes it equivalent.
	Why string `json:"why"`
}

//go:embed equivalent.json
var equivalentFile []byte

func parseKnown(name string, data []byte) ([]*Known, error) {
	var list []*Known
	if err := harness.DecodeJSON(data, &list); err != nil {
		return nil, fmt.Errorf("mutation: %s: %w", name, err)
	}
	for i, k := range list {
		if k.File == "" || len(k.Old) == 0 || len(k.New) == 0 || k.Why == "" {
			return nil, fmt.Errorf("mutation: %s: entry %d: want file, old, new and why", name, i+1)
		}
	}
	return list, nil
}

func (k *Known) matches(m *Mutant, kernel string) bool {
	if k.File != m.File() || !strings.Contains(kernel, k.Kernel) {
		return false
	}
	first, before, after := m.lines()
	if !sameLines(k.Old, before) || !sameLines(k.New, after) {
		return false
	}
	nth, all := 0, 0
	for i, line := range strings.Split(m.before, "\n") {
		if bare(line) == bare(k.Old[0]) {
			all++
			if i+1 == first {
				nth = all
			}
		}
	}
	return nth == k.Nth || all == 1 && k.Nth == 0
}

// sameLines compares lines without the blanks around them and the backslashes that
// join them. "..." stands for any lines.
func sameLines(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] == "..." {
		for i := range len(got) + 1 {
			if sameLines(want[1:], got[i:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && bare(want[0]) == bare(got[0]) && sameLines(want[1:], got[1:])
}

func bare(line string) string {
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), `\`))
}
