package source

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxSnippet is the number of characters of a source line that a report shows.
const maxSnippet = 120

// maxMacroNotes bounds the notes about nested expansions; the outermost and
// innermost ones are kept.
const maxMacroNotes = 6

// Render gives a diagnostic as text: `file:line:col: error: message`, the line
// and a caret, then the notes, those about macro expansions first.
func (m *Map) Render(d Diag) string {
	var b strings.Builder
	m.renderIncludes(&b, d.Span.Start)
	m.renderOne(&b, m.placeSpan(d.Span), d.Severity.String(), d.Msg)
	m.renderMacros(&b, d.Span.Start)
	for _, n := range d.Notes {
		m.renderOne(&b, m.placeSpan(n.Span), "note", n.Msg)
		m.renderMacros(&b, n.Span.Start)
	}
	return b.String()
}

// RenderAll renders diagnostics one after another.
func (m *Map) RenderAll(ds []Diag) string {
	var b strings.Builder
	for _, d := range ds {
		b.WriteString(m.Render(d))
	}
	return b.String()
}

// placeSpan maps both ends of a span to the user's text. An end that does not
// follow the start, as can be with tokens from different macros, is dropped.
func (m *Map) placeSpan(s Span) Span {
	p := Span{m.Place(s.Start), m.Place(s.End)}
	if p.End < p.Start {
		p.End = p.Start
	}
	return p
}

// renderIncludes says by which files the one at p came in.
func (m *Map) renderIncludes(b *strings.Builder, p Pos) {
	f := m.fileOf(m.Place(p))
	for f != nil && f.included.IsValid() {
		at := m.place(f.included)
		b.WriteString("in file included from " + at.File + ":" + strconv.Itoa(at.Line) + ":\n")
		f = m.fileOf(f.included)
	}
}

// renderMacros adds a note for each macro that p was expanded from, the
// outermost last.
func (m *Map) renderMacros(b *strings.Builder, p Pos) {
	type note struct {
		span Span
		msg  string
	}
	var notes []note
	for p < 0 {
		t, _, ok := m.token(p)
		if !ok {
			return
		}
		e, argument := t.use()
		use := m.expansions[e]
		if argument {
			notes = append(notes, note{use.call, "in an argument of macro '" + use.macro + "'"})
			p = t.spelled
			continue
		}
		notes = append(notes, note{Span{t.spelled, t.end}, "expanded from macro '" + use.macro + "'"})
		p = use.call.Start
	}
	for i, n := range notes {
		if len(notes) > maxMacroNotes && i >= maxMacroNotes/2 && i < len(notes)-maxMacroNotes/2 {
			if i == maxMacroNotes/2 {
				b.WriteString("note: " + strconv.Itoa(len(notes)-maxMacroNotes) + " more macros in between\n")
			}
			continue
		}
		s := Span{m.Spelling(n.span.Start), m.Spelling(n.span.End)}
		if strings.HasPrefix(n.msg, "in an") {
			s = m.placeSpan(n.span)
		}
		m.renderOne(b, s, "note", n.msg)
	}
}

// renderOne writes one message and its line; the span lies in a file.
func (m *Map) renderOne(b *strings.Builder, s Span, severity, msg string) {
	at := m.place(s.Start)
	if !at.IsValid() {
		b.WriteString(severity + ": " + msg + "\n")
		return
	}
	b.WriteString(at.String() + ": " + severity + ": " + msg + "\n")
	line := m.lineAt(s.Start)
	from := min(at.Col-1, len(line))
	to := from
	if f := m.fileOf(s.Start); s.End > s.Start && f != nil && s.End <= f.base+Pos(len(f.text)) {
		to = min(from+int(s.End-s.Start), len(line))
	}
	text, mark := snippet(line, from, to)
	b.WriteString(text + "\n" + mark + "\n")
}

// snippet cuts a line to a readable length around bytes [from, to) and makes the
// line that underlines them. Tabs stay tabs in both, so they line up on any
// terminal; other control characters and broken UTF-8 are replaced.
func snippet(line string, from, to int) (text, mark string) {
	// What is far from the place does not show, and a line may be the whole file.
	const near = 8 * maxSnippet
	if hi := from + near; from >= 0 && hi < len(line) {
		line = line[:hi]
		to = min(to, hi)
	}
	if lo := min(from, len(line)) - near; lo > 0 {
		for !utf8.RuneStart(line[lo]) && lo > 1 {
			lo--
		}
		line, from, to = line[lo:], from-lo, to-lo
	}
	var runes []rune
	start, end := 0, 0
	for i := 0; i < len(line); {
		r, n := utf8.DecodeRuneInString(line[i:])
		if i < from && i+n > from {
			from = i
		}
		if i == from {
			start = len(runes)
		}
		if i < to {
			end = len(runes) + 1
		}
		if r != '\t' && (r < ' ' || r == 0x7f || r == utf8.RuneError) {
			r = '�'
		}
		runes = append(runes, r)
		i += n
	}
	if from >= len(line) {
		start, end = len(runes), len(runes)
	}
	end = max(end, start+1)

	lo, hi := 0, len(runes)
	head, tail := "", ""
	if hi > maxSnippet {
		lo = max(0, min(start-maxSnippet/3, hi-maxSnippet))
		hi = min(hi, lo+maxSnippet)
		if lo > 0 {
			head = "..."
		}
		if hi < len(runes) {
			tail = "..."
		}
	}
	var t, k strings.Builder
	t.WriteString("  " + head)
	k.WriteString("  " + strings.Repeat(" ", len(head)))
	for i := lo; i < hi || i == start; i++ {
		r := ' '
		if i < hi {
			r = runes[i]
			t.WriteRune(r)
		}
		switch {
		case i == start:
			k.WriteByte('^')
		case i > start && i < end:
			k.WriteByte('~')
		case i > start:
		case r == '\t':
			k.WriteByte('\t')
		default:
			k.WriteByte(' ')
		}
	}
	return strings.TrimRight(t.String()+tail, " "), k.String()
}
