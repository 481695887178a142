package safety

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"minfer/metal/mtl"
	"minfer/metal/mtl/soft/san"
)

// Clean is what a case expects that must have no finding.
const Clean = "clean"

// Case is one launch case: a kernel source, how to run it, and what a checker
// must find. docs/launch-cases.md describes the form; schema.json is the same
// for machines.
type Case struct {
	Path   string // of the .json file, as messages call it
	Source string // path of the .metal file in the case's file system
	Text   string // its content

	About, Reference, Kind string

	Mode       san.Mode
	Serial     bool
	Dispatches []Dispatch
	Buffers    []Buffer // in file order

	Expect []string // kinds, or Clean alone
	Also   []string
	Where  *Where

	// Reference values of the output buffers, one after another in file order; nil
	// for none. Tolerance is relative above 1, absolute below.
	References []float64
	Tolerance  float64
}

// Dispatch is one launch.
type Dispatch struct {
	Kernel                string
	Threadgroups          *mtl.Size // one of the two
	ThreadsPerGrid        *mtl.Size
	ThreadsPerThreadgroup mtl.Size
	Args                  []Arg
	BarrierAfter          bool
	Constants             map[string]any
}

// Arg is one argument: a buffer, inline bytes, or threadgroup memory.
type Arg struct {
	Buffer           int // index in Case.Buffers; -1
	Offset           int // bytes
	Bytes            []byte
	Type             mtl.Type // of Bytes
	ThreadgroupBytes int      // -1 where the argument is none
}

// Buffer is device memory.
type Buffer struct {
	Name         string
	Type         mtl.Type
	Count        int // elements allocated
	LogicalCount int // elements of the tensor
	Init         Init
	Output       bool
}

// Init says what a buffer holds at the start.
type Init struct {
	How    string // random, zeros, fill, values or poison
	Seed   uint64
	Values []uint64 // the bits of values, or the one of fill
}

// Where is where a finding must lie.
type Where struct {
	Lines      *[2]int
	Accesses   []int
	Buffer     string // "" for any, as below
	AlsoBuffer string
	Argument   string
	Space      string
	Access     string
	Elements   *[2]int
	Count      int // -1
	Dispatch   int // -1
	Dispatches []int
}

// Bounds of the numbers in a case.
const (
	maxElements   = 1 << 28
	maxGrid       = math.MaxInt32
	maxDispatches = 4096
	maxArgs       = 128
	maxLine       = 1 << 24
)

var typeNames = []string{"bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32"}

// Load reads a case and its source from a file system. shown is how messages
// call the file.
func Load(fsys fs.FS, name, shown string) (*Case, error) {
	data, err := readFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown, cause(err))
	}
	c, err := Parse(shown, data)
	if err != nil {
		return nil, err
	}
	source := c.Source
	if path.IsAbs(source) {
		c.Source = source[1:]
	} else {
		c.Source = path.Join(path.Dir(name), source)
	}
	text, err := readFile(fsys, c.Source)
	if err != nil {
		return nil, fmt.Errorf("%s: source: found no readable file %q (%w), want the path of a .metal file, from the case's folder", shown, source, cause(err))
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: source: found more than %d bytes", shown, maxFile)
	}
	c.Text = string(text)
	return c, nil
}

// readFile reads no more than tells that a file is too large: a device has no end.
func readFile(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// LoadFile reads a case from the machine's files, where its source may lie
// anywhere. The file system that it returns has the whole machine.
func LoadFile(name string) (*Case, fs.FS, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, nil, err
	}
	root := filepath.VolumeName(abs) + string(filepath.Separator)
	fsys := os.DirFS(root)
	c, err := Load(fsys, filepath.ToSlash(abs[len(root):]), name)
	return c, fsys, err
}

// cause drops the path that a file error repeats.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Parse reads the launch file alone. Errors are one line: file, key, what was
// found and what was expected.
func Parse(name string, data []byte) (*Case, error) {
	n, err := readTree(name, data)
	if err != nil {
		return nil, err
	}
	c := n.launchCase()
	c.Path = name
	if n.r.err != nil {
		return nil, n.r.err
	}
	return c, nil
}

var caseKeys = []string{"source", "about", "reference", "kind", "mode", "encoder", "dispatches", "buffers", "expect", "also", "where", "reference_values", "tolerance"}

func (n *node) launchCase() *Case {
	c := &Case{Mode: san.Strict}
	c.Source = n.need("source").text()
	if c.Source == "" && n.r.err == nil {
		n.need("source").fail("the path of a .metal file, from the case's folder")
	}
	for key, to := range map[string]*string{"about": &c.About, "reference": &c.Reference, "kind": &c.Kind} {
		if f := n.get(key); f != nil {
			*to = f.text()
		}
	}
	if f := n.get("mode"); f != nil {
		c.Mode, _ = san.ParseMode(f.word([]string{"off", "mem", "race", "strict", "chaos"}))
	}
	if f := n.get("encoder"); f != nil {
		c.Serial = f.word([]string{"concurrent", "serial"}) == "serial"
	}
	index := map[string]int{}
	if f := n.need("buffers"); n.r.err == nil {
		for _, name := range f.obj().keys {
			index[name] = len(c.Buffers)
			c.Buffers = append(c.Buffers, f.get(name).buffer(name))
		}
	}
	if f := n.need("dispatches"); n.r.err == nil {
		l := f.list()
		if len(l) < 1 || len(l) > maxDispatches {
			f.fail("1 to %d dispatches", maxDispatches)
		}
		for _, d := range l {
			c.Dispatches = append(c.Dispatches, d.dispatch(c.Buffers, index))
		}
	}
	c.Expect = n.expect()
	if f := n.get("also"); f != nil {
		for _, k := range f.list() {
			c.Also = append(c.Also, k.word(san.Kinds))
		}
	}
	if f := n.get("where"); f != nil {
		c.Where = f.where(index, len(c.Dispatches))
		if len(c.Expect) > 0 && c.Expect[0] == Clean {
			f.fail("no key where, as the case expects clean")
		}
	}
	n.references(c)
	n.done(caseKeys...)
	return c
}

func (n *node) expect() []string {
	f := n.get("expect")
	if f == nil {
		return []string{Clean}
	}
	if l, ok := f.val.([]*node); ok {
		if len(l) == 0 {
			f.fail("at least one kind")
		}
		var kinds []string
		for _, k := range l {
			kinds = append(kinds, k.word(san.Kinds))
		}
		return kinds
	}
	return []string{f.word(append([]string{Clean}, san.Kinds...))}
}

func (n *node) references(c *Case) {
	if f := n.get("tolerance"); f != nil {
		c.Tolerance = f.float()
		if !(c.Tolerance >= 0) || math.IsInf(c.Tolerance, 0) {
			f.fail("a number of at least 0")
		}
	}
	f := n.get("reference_values")
	if f == nil || n.r.err != nil {
		return
	}
	total := 0
	for _, b := range c.Buffers {
		if b.Output {
			total += b.LogicalCount
		}
	}
	l := f.list()
	if len(l) != total || total == 0 {
		f.fail("the %d elements of the output buffers", total)
	}
	for _, v := range l {
		c.References = append(c.References, v.float())
	}
}

func (n *node) buffer(name string) Buffer {
	b := Buffer{Name: name, Type: n.need("type").elemType()}
	limit := maxElements / max(1, b.Type.Size())
	b.Count = n.need("count").int(1, limit)
	b.LogicalCount = b.Count
	if f := n.get("logical_count"); f != nil {
		b.LogicalCount = f.int(1, b.Count)
	}
	if f := n.get("output"); f != nil {
		b.Output = f.boolean()
	}
	b.Init.How = n.need("init").word([]string{"random", "zeros", "fill", "values", "poison"})
	switch b.Init.How {
	case "random":
		if f := n.get("seed"); f != nil {
			b.Init.Seed = uint64(f.int(0, math.MaxInt64))
		}
	case "fill":
		b.Init.Values = []uint64{n.need("value").bits(b.Type)}
	case "values":
		f := n.need("values")
		l := f.list()
		if len(l) != b.Count {
			f.fail("the %d elements of the buffer", b.Count)
		}
		for _, v := range l {
			b.Init.Values = append(b.Init.Values, v.bits(b.Type))
		}
	}
	n.done("type", "count", "init", "seed", "value", "values", "output", "logical_count")
	return b
}

func (n *node) elemType() mtl.Type {
	name := n.word(typeNames)
	if name == "" {
		return mtl.AnyType
	}
	t, err := mtl.ParseType(name)
	if err != nil {
		n.fail("one of %v", typeNames)
	}
	return t
}

// bits is a value of a type, zero-extended.
func (n *node) bits(t mtl.Type) uint64 {
	switch t {
	case mtl.AnyType:
		return 0
	case mtl.Bool:
		if n.boolean() {
			return 1
		}
		return 0
	case mtl.Float16, mtl.BFloat16, mtl.Float32:
		return floatBits(t, n.float())
	}
	num, ok := n.val.(json.Number)
	s := num.String()
	width := 8 * t.Size()
	if ok {
		// An integer may be spelled 1.0, as JSON knows one kind of number.
		if f, err := num.Float64(); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			s = strconv.FormatFloat(f, 'f', 0, 64)
			if f == 0 {
				s = "0"
			}
		}
		if signed(t) {
			if v, err := strconv.ParseInt(s, 10, width); err == nil {
				return uint64(v) << (64 - width) >> (64 - width)
			}
		} else if v, err := strconv.ParseUint(s, 10, width); err == nil {
			return v
		}
	}
	n.fail("%s value", article(t))
	return 0
}

func article(t mtl.Type) string {
	if s := t.String(); s[0] == 'i' {
		return "an " + s
	} else {
		return "a " + s
	}
}

func signed(t mtl.Type) bool {
	return t == mtl.Int8 || t == mtl.Int16 || t == mtl.Int32 || t == mtl.Int64
}

func (n *node) size() *mtl.Size {
	l := n.list()
	if n.r.err == nil && (len(l) < 1 || len(l) > 3) {
		n.fail("a list of 3 numbers")
	}
	s := [3]int{1, 1, 1}
	for i, v := range l {
		if i < 3 {
			s[i] = v.int(0, maxGrid)
		}
	}
	return &mtl.Size{X: s[0], Y: s[1], Z: s[2]}
}

func (n *node) dispatch(buffers []Buffer, index map[string]int) Dispatch {
	d := Dispatch{Kernel: n.need("kernel").text()}
	if f := n.get("threadgroups"); f != nil {
		d.Threadgroups = f.size()
	}
	if f := n.get("threads_per_grid"); f != nil {
		d.ThreadsPerGrid = f.size()
	}
	if n.r.err == nil && (d.Threadgroups == nil) == (d.ThreadsPerGrid == nil) {
		n.r.err = fmt.Errorf("%s: %s: found %s of threadgroups and threads_per_grid, want one of the two", n.r.file, n.path,
			map[bool]string{true: "none", false: "both"}[d.Threadgroups == nil])
	}
	if f := n.need("threads_per_threadgroup"); n.r.err == nil {
		d.ThreadsPerThreadgroup = *f.size()
	}
	if f := n.get("args"); f != nil {
		l := f.list()
		if len(l) > maxArgs {
			f.fail("at most %d arguments", maxArgs)
		}
		for _, a := range l {
			d.Args = append(d.Args, a.arg(buffers, index))
		}
	}
	if f := n.get("barrier_after"); f != nil {
		d.BarrierAfter = f.boolean()
	}
	if f := n.get("constants"); f != nil {
		d.Constants = map[string]any{}
		for _, k := range f.obj().keys {
			d.Constants[k] = f.get(k).constant()
		}
	}
	n.done("kernel", "threadgroups", "threads_per_grid", "threads_per_threadgroup", "args", "barrier_after", "constants")
	return d
}

func (n *node) arg(buffers []Buffer, index map[string]int) Arg {
	a := Arg{Buffer: -1, ThreadgroupBytes: -1}
	o := n.obj()
	if n.r.err != nil {
		return a
	}
	switch {
	case o.fields["buffer"] != nil:
		f := n.get("buffer")
		name := f.text()
		i, ok := index[name]
		if !ok {
			f.fail("the name of one of the case's buffers")
			return a
		}
		a.Buffer = i
		if f := n.get("offset"); f != nil {
			a.Offset = f.int(0, math.MaxInt32) // past the end is a launch that Metal refuses
		}
		n.done("buffer", "offset")
	case o.fields["bytes"] != nil:
		a.Type = n.get("bytes").elemType()
		f := n.need("values")
		if n.r.err != nil {
			return a
		}
		l := f.list()
		if len(l) < 1 || len(l) > 1<<16 {
			f.fail("1 to %d values", 1<<16)
		}
		for _, v := range l {
			a.Bytes = appendBits(a.Bytes, v.bits(a.Type), a.Type.Size())
		}
		n.done("bytes", "values")
	case o.fields["threadgroup_bytes"] != nil:
		a.ThreadgroupBytes = n.get("threadgroup_bytes").int(0, math.MaxInt32)
		n.done("threadgroup_bytes")
	default:
		n.fail("an object with the key buffer, bytes or threadgroup_bytes")
	}
	return a
}

// constant is the value of a function constant: a bool, a number, or a list of
// them. Its type is the kernel's business.
func (n *node) constant() any {
	switch v := n.val.(type) {
	case bool:
		return v
	case json.Number:
		if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return i
		}
		if u, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return u
		}
		return n.float()
	case string:
		return n.float()
	case []*node:
		var all []any
		for _, e := range v {
			if _, nested := e.val.([]*node); nested {
				e.fail("a bool or a number")
				return nil
			}
			all = append(all, e.constant())
		}
		return all
	}
	n.fail("a bool, a number or a list of them")
	return nil
}

func (n *node) where(index map[string]int, dispatches int) *Where {
	w := &Where{Count: -1, Dispatch: -1}
	line, lines := n.get("line"), n.get("lines")
	switch {
	case line != nil && lines != nil:
		lines.fail("either line or lines")
	case line != nil:
		l := line.int(1, maxLine)
		w.Lines = &[2]int{l, l}
	case lines != nil:
		w.Lines = lines.pair(1, maxLine)
	}
	if f := n.get("accesses"); f != nil {
		for _, l := range f.list() {
			w.Accesses = append(w.Accesses, l.int(1, maxLine))
		}
		if len(w.Accesses) == 0 {
			f.fail("at least one line")
		}
	}
	for key, to := range map[string]*string{"buffer": &w.Buffer, "also_buffer": &w.AlsoBuffer} {
		if f := n.get(key); f != nil {
			*to = f.text()
			if _, ok := index[*to]; !ok {
				f.fail("the name of one of the case's buffers")
			}
		}
	}
	if f := n.get("argument"); f != nil {
		w.Argument = f.text()
	}
	if f := n.get("space"); f != nil {
		w.Space = f.word([]string{"device", "constant", "threadgroup", "thread"})
	}
	if f := n.get("access"); f != nil {
		w.Access = f.word([]string{"read", "write"})
	}
	if f := n.get("elements"); f != nil {
		w.Elements = f.pair(-1<<53, 1<<53)
	}
	if f := n.get("count"); f != nil {
		w.Count = f.int(1, math.MaxInt32)
	}
	if f := n.get("dispatch"); f != nil {
		w.Dispatch = f.int(0, max(0, dispatches-1))
	}
	if f := n.get("dispatches"); f != nil {
		for _, d := range f.list() {
			w.Dispatches = append(w.Dispatches, d.int(0, max(0, dispatches-1)))
		}
	}
	n.done("line", "lines", "accesses", "buffer", "also_buffer", "argument", "space", "access", "elements", "count", "dispatch", "dispatches")
	return w
}

// pair is [first, last].
func (n *node) pair(lo, hi int) *[2]int {
	l := n.list()
	if n.r.err == nil && len(l) != 2 {
		n.fail("a list of first and last")
	}
	if n.r.err != nil {
		return &[2]int{}
	}
	p := &[2]int{l[0].int(lo, hi), l[1].int(lo, hi)}
	if p[0] > p[1] {
		n.fail("first not above last")
	}
	return p
}
