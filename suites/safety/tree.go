package safety

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
	"strings"
	"unicode"
)

// maxFile and maxDepth bound what is read at all.
const (
	maxFile  = 64 << 20
	maxDepth = 16
)

// node is a JSON value with its path in the file. Readers record the first error
// in the shared reader and go on with zero values, so a form is read as one
// straight list of its keys.
type node struct {
	r    *reader
	path string
	val  any // nil, bool, json.Number, string, []*node, *object
}

type object struct {
	keys   []string // in file order
	fields map[string]*node
	used   map[string]bool
}

// reader holds the file's name and the first error.
type reader struct {
	file string
	err  error
}

// fail records "file: path: found X, want Y".
func (n *node) fail(want string, a ...any) {
	if n.r.err != nil {
		return
	}
	path := n.path
	if path == "" {
		path = "top level"
	}
	n.r.err = fmt.Errorf("%s: %s: found %s, want %s", n.r.file, path, n.found(), fmt.Sprintf(want, a...))
}

// found describes the value, shortened.
func (n *node) found() string {
	var s string
	switch v := n.val.(type) {
	case nil:
		s = "null"
	case bool:
		s = strconv.FormatBool(v)
	case json.Number:
		s = v.String()
	case string:
		s = strconv.Quote(v)
	case []*node:
		s = fmt.Sprintf("a list of %d", len(v))
	default:
		s = "an object"
	}
	if len(s) > 60 {
		s = s[:57] + "..."
	}
	return s
}

// readTree reads one JSON value and nothing after it.
func readTree(file string, data []byte) (*node, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: found more than %d bytes", file, maxFile)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	r := &reader{file: file}
	n, err := r.value(d, "", 0)
	if err == nil {
		if _, err2 := d.Token(); err2 != io.EOF {
			err = errors.New("found more after the first JSON value, want its end")
		}
	}
	if err != nil {
		line := 1 + bytes.Count(data[:min(int(d.InputOffset()), len(data))], []byte("\n"))
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("found the end of the file inside a JSON value")
		}
		return nil, fmt.Errorf("%s:%d: %w", file, line, err)
	}
	return n, nil
}

func (r *reader) value(d *json.Decoder, path string, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%s: found nesting of more than %d levels, want a launch case", path, maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	n := &node{r: r, path: path}
	switch t {
	case json.Delim('['):
		list := []*node{}
		for d.More() {
			e, err := r.value(d, fmt.Sprintf("%s[%d]", path, len(list)), depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, e)
		}
		n.val = list
		_, err = d.Token()
	case json.Delim('{'):
		o := &object{fields: map[string]*node{}, used: map[string]bool{}}
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			key := k.(string)
			e, err := r.value(d, join(path, key), depth+1)
			if err != nil {
				return nil, err
			}
			if o.fields[key] != nil {
				return nil, fmt.Errorf("%s: found the key twice, want it once", join(path, key))
			}
			o.keys = append(o.keys, key)
			o.fields[key] = e
		}
		n.val = o
		_, err = d.Token()
	default:
		n.val = t
	}
	return n, err
}

func join(path, key string) string {
	// A key is whatever the file holds; an error about it stays one line.
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// obj is the value as an object; an empty one after an error.
func (n *node) obj() *object {
	if o, ok := n.val.(*object); ok {
		return o
	}
	n.fail("an object")
	return &object{used: map[string]bool{}}
}

// get takes a field, nil where it is absent.
func (n *node) get(key string) *node {
	o, ok := n.val.(*object)
	if !ok {
		n.fail("an object")
		return nil
	}
	o.used[key] = true
	return o.fields[key]
}

// need takes a field that must be there.
func (n *node) need(key string) *node {
	f := n.get(key)
	if f == nil {
		if n.r.err == nil {
			n.r.err = fmt.Errorf("%s: %s: found no such key, want it", n.r.file, join(n.path, key))
		}
		return &node{r: n.r, path: join(n.path, key)}
	}
	return f
}

// done refuses keys that nobody took.
func (n *node) done(known ...string) {
	o, ok := n.val.(*object)
	if !ok {
		return
	}
	sort.Strings(known)
	for _, k := range o.keys {
		if !o.used[k] && n.r.err == nil {
			n.r.err = fmt.Errorf("%s: %s: found an unknown key, want one of %s", n.r.file, join(n.path, k), strings.Join(known, ", "))
		}
	}
}

func (n *node) list() []*node {
	l, ok := n.val.([]*node)
	if !ok {
		n.fail("a list")
	}
	return l
}

func (n *node) text() string {
	s, ok := n.val.(string)
	if !ok {
		n.fail("a string")
	}
	return s
}

func (n *node) word(allowed []string) string {
	s, ok := n.val.(string)
	for _, a := range allowed {
		if ok && s == a {
			return s
		}
	}
	n.fail("one of %s", strings.Join(allowed, ", "))
	return ""
}

func (n *node) boolean() bool {
	b, ok := n.val.(bool)
	if !ok {
		n.fail("true or false")
	}
	return b
}

// int is an integer in [lo, hi].
func (n *node) int(lo, hi int) int {
	num, ok := n.val.(json.Number)
	if ok {
		if v, err := strconv.ParseInt(num.String(), 10, 64); err == nil && v >= int64(lo) && v <= int64(hi) {
			return int(v)
		}
	}
	n.fail("an integer from %d to %d", lo, hi)
	return lo
}

// float is a number, or "inf", "-inf" or "nan".
func (n *node) float() float64 {
	switch v := n.val.(type) {
	case json.Number:
		if f, err := strconv.ParseFloat(v.String(), 64); err == nil {
			return f
		}
	case string:
		switch v {
		case "inf":
			return math.Inf(1)
		case "-inf":
			return math.Inf(-1)
		case "nan":
			return math.NaN()
		}
	}
	n.fail(`a number, "inf", "-inf" or "nan"`)
	return 0
}
