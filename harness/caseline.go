package harness

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Line is one case as a user wrote it: a JSON object with an "op" and further
// keys, whose meaning is the suite's affair.
//
//	{"op":"mul_mat","type":"q4_0","m":16,"n":9,"k":256}
type Line struct {
	File   string
	Number int // from 1
	Op     string
	keys   []string
	values map[string]any // json.Number, string or bool
	used   map[string]bool
}

// maxLine bounds a case line, in bytes.
const maxLine = 1 << 20

// ReadLines reads JSON Lines. Blank lines are passed over. An error names file
// and line; lines after a bad one are still read, and all errors are joined.
func ReadLines(file string, r io.Reader) ([]*Line, error) {
	var lines []*Line
	var errs []error
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	n := 0
	for s.Scan() {
		n++
		text := bytes.TrimSpace(s.Bytes())
		if len(text) == 0 {
			continue
		}
		l, err := parseLine(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", file, n, err))
			continue
		}
		l.File, l.Number = file, n
		lines = append(lines, l)
	}
	if err := s.Err(); err != nil {
		errs = append(errs, fmt.Errorf("%s:%d: %w", file, n+1, err))
	}
	return lines, errors.Join(errs...)
}

func parseLine(text []byte) (*Line, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New(`not a JSON object: want {"op":"mul_mat",...}`)
	}
	l := &Line{values: map[string]any{}, used: map[string]bool{}}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("not valid JSON: %w", err)
		}
		key := t.(string) // an object's keys are strings, or Token fails
		v, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("key %q: not valid JSON: %w", key, err)
		}
		switch v.(type) {
		case json.Number, string, bool:
		default:
			return nil, fmt.Errorf("key %q: want a number, a string or a bool", key)
		}
		if _, twice := l.values[key]; twice {
			return nil, fmt.Errorf("key %q appears twice", key)
		}
		if key == "op" {
			op, ok := v.(string)
			if !ok || op == "" || strings.ContainsFunc(op, func(r rune) bool { return r <= ' ' || r > '~' }) {
				return nil, fmt.Errorf(`key "op" is %s: want the name of an op`, show(v))
			}
			l.Op = op
			l.used[key] = true
		}
		l.keys = append(l.keys, key)
		l.values[key] = v
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("not valid JSON: the object does not end")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("text after the JSON object")
	}
	if l.Op == "" {
		return nil, errors.New(`no key "op"`)
	}
	return l, nil
}

// show prints a value on one line, texts in quotes.
func show(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(s)
	}
	return fmt.Sprint(v)
}

// Errorf is an error about the line, with file and line number.
func (l *Line) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s: %s", l.File, l.Number, l.Op, fmt.Sprintf(format, args...))
}

// Has reports whether the line has the key.
func (l *Line) Has(key string) bool {
	_, ok := l.values[key]
	return ok
}

// Int is the value of a key that must be there, a whole number in [lo, hi].
func (l *Line) Int(key string, lo, hi int) (int, error) {
	v, err := l.value(key)
	if err != nil {
		return 0, err
	}
	n, ok := v.(json.Number)
	if !ok {
		return 0, l.Errorf("key %q is %s: want a whole number", key, show(v))
	}
	i, err := strconv.Atoi(n.String())
	if err != nil || i < lo || i > hi {
		return 0, l.Errorf("key %q is %s: want a whole number from %d to %d", key, n, lo, hi)
	}
	return i, nil
}

// Float32 is the value of a key that must be there, a finite float32.
func (l *Line) Float32(key string) (float32, error) {
	v, err := l.value(key)
	if err != nil {
		return 0, err
	}
	n, ok := v.(json.Number)
	if !ok {
		return 0, l.Errorf("key %q is %s: want a number", key, show(v))
	}
	f, err := strconv.ParseFloat(n.String(), 32)
	if err != nil || math.IsInf(f, 0) {
		return 0, l.Errorf("key %q is %s: want a finite 32-bit number", key, n)
	}
	return float32(f), nil
}

// Text is the value of a key that must be there, a string.
func (l *Line) Text(key string) (string, error) {
	v, err := l.value(key)
	if err != nil {
		return "", err
	}
	s, ok := v.(string)
	if !ok {
		return "", l.Errorf("key %q is %s: want a string", key, show(v))
	}
	return s, nil
}

// Done reports the first key that nobody asked for.
func (l *Line) Done() error {
	for _, key := range l.keys {
		if !l.used[key] {
			return l.Errorf("unknown key %q", key)
		}
	}
	return nil
}

func (l *Line) value(key string) (any, error) {
	v, ok := l.values[key]
	if !ok {
		return nil, l.Errorf("no key %q", key)
	}
	l.used[key] = true
	return v, nil
}

// Bool is the value of a key that may be left out, false then.
func (l *Line) Bool(key string) (bool, error) {
	if !l.Has(key) {
		return false, nil
	}
	v, err := l.value(key)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, l.Errorf("key %q is %s: want true or false", key, show(v))
	}
	return b, nil
}
