package harness

import (
	"regexp"
	"strconv"
	"strings"
)

// Finding is one fault that a failed case has in a source file: what the reports
// for code hosts put at a line.
type Finding struct {
	Rule    string  `json:"rule"`  // the kind: "threadgroup-race"
	Level   string  `json:"level"` // LevelError, LevelWarning or LevelNote
	Message string  `json:"message"`
	ID      string  `json:"id,omitempty"` // the same from run to run where lines move
	At      Place   `json:"at"`
	Related []Place `json:"related,omitempty"` // the other side of a conflict
}

// The levels, in SARIF's words.
const (
	LevelError   = "error"
	LevelWarning = "warning"
	LevelNote    = "note"
)

// Place is in a file; Line and Column count from 1, 0 is unknown.
type Place struct {
	File   string `json:"file"` // with slashes, from where the command ran or absolute
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	What   string `json:"what,omitempty"` // "write by simdgroup 0"
}

// diagnostic is FILE:LINE:COLUMN: LEVEL: TEXT, as compilers print it; the level
// may be left out.
var diagnostic = regexp.MustCompile(`(?:^|[\s(])([^\s:()"]+\.[A-Za-z]+):(\d+):(\d+): (?:(?:fatal )?(error|warning|note): )?(.+)$`)

// kindOf is the word in front of a message, where it is a kind: "device-race: ...".
var kindOf = regexp.MustCompile(`^([a-z]+(?:-[a-z]+)+|nan|mismatch|misaligned|uninitialized|timeout): (.+)$`)

// Diagnostics reads findings out of the text of a failure: of its reason, whose
// first place counts whatever its level, and of its details, of whose lines those
// count that begin with a place and say error or warning. rule is that of
// findings which name none; path turns a file's name into the path to report, or
// gives "" for a file that is not the user's to see.
func Diagnostics(rule string, r *Result, path func(file string) string) []Finding {
	var list []Finding
	add := func(line string, leveled bool) {
		m := diagnostic.FindStringSubmatch(line)
		if m == nil || leveled && (m[4] == "" || m[4] == LevelNote || !strings.HasPrefix(line, m[1])) {
			return
		}
		f := Finding{Rule: rule, Level: LevelError, Message: m[5], At: Place{File: path(m[1])}}
		if f.At.File == "" {
			return
		}
		f.At.Line, _ = strconv.Atoi(m[2])
		f.At.Column, _ = strconv.Atoi(m[3])
		if m[4] == LevelWarning {
			f.Level = LevelWarning
		}
		if k := kindOf.FindStringSubmatch(f.Message); k != nil {
			f.Rule, f.Message = k[1], k[2]
		}
		for _, old := range list {
			if old.At == f.At && old.Rule == f.Rule {
				return
			}
		}
		list = append(list, f)
	}
	add(r.Reason, false)
	for _, d := range r.Details {
		add(d, true)
	}
	return list
}
