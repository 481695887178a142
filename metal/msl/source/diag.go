package source

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity says what a diagnostic means for the result.
type Severity uint8

// The severities.
const (
	Error Severity = iota
	Warning
	Remark
)

// String gives the word that reports use.
func (s Severity) String() string {
	switch s {
	case Error:
		return "error"
	case Warning:
		return "warning"
	default:
		return "remark"
	}
}

// Diag is one message about the text. Msg is one line without a full stop and
// says what was found and what was expected. Span's End may be unknown.
type Diag struct {
	Severity Severity
	Span     Span
	Msg      string
	Notes    []Note
}

// Note adds a place to a diagnostic.
type Note struct {
	Span Span
	Msg  string
}

// Errorf makes an error at a span.
func Errorf(at Span, format string, args ...any) Diag {
	return Diag{Severity: Error, Span: at, Msg: fmt.Sprintf(format, args...)}
}

// Warningf makes a warning at a span.
func Warningf(at Span, format string, args ...any) Diag {
	return Diag{Severity: Warning, Span: at, Msg: fmt.Sprintf(format, args...)}
}

// Note adds a note and gives the diagnostic.
func (d Diag) Note(at Span, format string, args ...any) Diag {
	d.Notes = append(d.Notes, Note{Span: at, Msg: fmt.Sprintf(format, args...)})
	return d
}

// Sort puts diagnostics in the order of the text, those of one place in the order
// in which they were found.
func (m *Map) Sort(ds []Diag) {
	slices.SortStableFunc(ds, func(a, b Diag) int {
		return cmp.Compare(m.Place(a.Span.Start), m.Place(b.Span.Start))
	})
}

// HasErrors reports whether one of the diagnostics is an error.
func HasErrors(ds []Diag) bool {
	for _, d := range ds {
		if d.Severity == Error {
			return true
		}
	}
	return false
}
