package gguf

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	magic            = "GGUF"
	defaultAlignment = 32
	maxDims          = 4

	// llama.cpp keeps a tensor's name in 64 bytes with its terminating zero
	// (GGML_MAX_NAME) and refuses longer ones.
	maxTensorName = 63
	// The format's own limit on keys.
	maxKey = 1<<16 - 1

	// The least that an entry takes in the file. A count that exceeds the bytes
	// left divided by this is refused before anything is allocated for it.
	minKVBytes     = 8 + 1 + 4 + 1         // key length, one byte of key, type, a one-byte value
	minTensorBytes = 8 + 1 + 4 + 8 + 4 + 8 // name length, one byte of name, n_dims, one dimension, type, offset

	keyAlignment    = "general.alignment"
	keySplitNo      = "split.no"
	keySplitCount   = "split.count"
	keySplitTensors = "split.tensors.count"
)

// Open maps a model file and reads its directory. Given the first part of a
// model in several (PREFIX-00001-of-0000N.gguf), it follows the other parts;
// any other part is refused. The tensors' Data stay valid until Close.
//
// The error is one line that names the file, the byte where reading stopped,
// what was found and what was expected.
func Open(path string) (*File, error) {
	var unmaps []func() error
	unmap := func() error {
		var err error
		for _, u := range unmaps {
			err = errors.Join(err, u())
		}
		unmaps = nil
		return err
	}
	f, err := load(path, 0, func(_ int, path string) ([]byte, error) {
		data, u, err := openPart(path)
		if err == nil {
			unmaps = append(unmaps, u)
		}
		return data, err
	})
	if err != nil {
		_ = unmap() // the first error is the one to tell
		return nil, err
	}
	f.unmap = unmap
	return f, nil
}

// Read reads a model that is in memory already, one slice a part, in order.
// name stands for the path in errors and in File.Path. The File and its tensors
// refer to the slices, which must not change.
func Read(name string, data ...[]byte) (*File, error) {
	if len(data) == 0 {
		return nil, fmt.Errorf("gguf: %s: no data: want one slice for each part", name)
	}
	return load(name, len(data), func(i int, _ string) ([]byte, error) { return data[i], nil })
}

// Close releases the mapping. No slice taken from the file may be used after;
// the File's own are set to nil. A second Close does nothing.
func (f *File) Close() error {
	if f.unmap == nil {
		return nil
	}
	for i := range f.Tensors {
		f.Tensors[i].Data = nil
	}
	for i := range f.Parts {
		f.Parts[i].Data = nil
	}
	unmap := f.unmap
	f.unmap = nil
	if err := unmap(); err != nil {
		return fmt.Errorf("gguf: %s: %w", f.Path, err)
	}
	return nil
}

// Tensor finds a tensor by its name, in any part.
func (f *File) Tensor(name string) (*Tensor, bool) {
	i, ok := f.index[name]
	if !ok {
		return nil, false
	}
	return &f.Tensors[i], true
}

// Lookup returns the value of a metadata key with the type that the file gives
// it (see KV). Get converts as well.
func (f *File) Lookup(key string) (any, bool) {
	i, ok := f.kv[key]
	if !ok {
		return nil, false
	}
	return f.KVs[i].Value, true
}

// openPart maps one file.
func openPart(path string) ([]byte, func() error, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("gguf: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("gguf: %w", err)
	case !info.Mode().IsRegular():
		return nil, nil, fmt.Errorf("gguf: %s: found a %s, want a regular file", path, fileKind(info.Mode()))
	case info.Size() == 0: // nothing to map
		return nil, func() error { return nil }, nil
	case info.Size() > math.MaxInt:
		return nil, nil, fmt.Errorf("gguf: %s: %d bytes, more than this machine can address", path, info.Size())
	}
	data, unmap, err := mapFile(file, int(info.Size()))
	if err != nil {
		return nil, nil, fmt.Errorf("gguf: %s: %w", path, err)
	}
	return data, unmap, nil
}

func fileKind(m fs.FileMode) string {
	if m.IsDir() {
		return "directory"
	}
	return "special file"
}

// A part is one file as parsed.
type part struct {
	path       string
	data       []byte
	version    uint32
	alignment  int
	kvs        []KV
	kvOffs     []int // of the key
	kv         map[string]int
	tensors    []Tensor
	tensorOffs []int // of the directory entry
}

func (p *part) errorf(off int, format string, args ...any) error {
	return fmt.Errorf("gguf: %s: byte %d: %s", p.path, off, fmt.Sprintf(format, args...))
}

// number returns an integer of the part's metadata, 0 when it is absent.
func (p *part) number(key string) (n int64, ok bool, err error) {
	i, ok := p.kv[key]
	if !ok {
		return 0, false, nil
	}
	v := p.kvs[i].Value
	w, isInt := widen(v)
	if !isInt || w.u != 0 {
		return 0, false, p.errorf(p.kvOffs[i], "key %q: found %s, want an integer", key, describe(v))
	}
	return w.v, true, nil
}

// parse reads one file: header, metadata, tensor directory, and the place of
// each tensor's data. Nothing read from the file is used before it is checked
// against the file's size.
func parse(path string, data []byte) (*part, error) {
	c := &cursor{path: path, data: data}
	p := &part{path: path, data: data, kv: map[string]int{}}
	nTensors, nKV, err := c.header(p)
	if err != nil {
		return nil, err
	}
	for i := range nKV {
		if err := c.keyValue(p, i, nKV); err != nil {
			return nil, err
		}
	}
	if err := p.readAlignment(); err != nil {
		return nil, err
	}
	offsets := make([]uint64, 0, nTensors)
	names := make(map[string]bool, nTensors)
	for i := range nTensors {
		off, err := c.tensorInfo(p, names, i, nTensors)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, off)
	}
	return p, p.place(c.off, offsets)
}

// header reads magic, version and the two counts.
func (c *cursor) header(p *part) (nTensors, nKV uint64, err error) {
	if len(c.data) < len(magic) || string(c.data[:4]) != magic {
		found := c.data[:min(len(c.data), 4)]
		if string(found) == "FUGG" {
			return 0, 0, c.errorf("magic %q: a big-endian file, want little-endian %q", found, magic)
		}
		return 0, 0, c.errorf("magic %q, want %q: not a GGUF file", found, magic)
	}
	c.off = 4
	if p.version, err = c.u32("version"); err != nil {
		return 0, 0, err
	}
	if p.version != 2 && p.version != 3 {
		c.off = 4
		if v := bits.ReverseBytes32(p.version); v >= 1 && v <= 3 {
			return 0, 0, c.errorf("version %d in big-endian order, want a little-endian file", v)
		}
		return 0, 0, c.errorf("version %d, want 2 or 3", p.version)
	}
	if nTensors, err = c.u64("tensor count"); err != nil {
		return 0, 0, err
	}
	if nKV, err = c.u64("key count"); err != nil {
		return 0, 0, err
	}
	left := uint64(c.left())
	if nKV > left/minKVBytes {
		c.off -= 8
		return 0, 0, c.errorf("key count %d, but the %d bytes left hold at most %d", nKV, left, left/minKVBytes)
	}
	if nTensors > left/minTensorBytes {
		c.off -= 16
		return 0, 0, c.errorf("tensor count %d, but the %d bytes left hold at most %d", nTensors, left, left/minTensorBytes)
	}
	return nTensors, nKV, nil
}

// keyValue reads one metadata entry.
func (c *cursor) keyValue(p *part, i, n uint64) error {
	start := c.off
	key, err := c.name(fmt.Sprintf("key %d of %d", i+1, n), maxKey)
	if err != nil {
		return err
	}
	if _, twice := p.kv[key]; twice {
		return p.errorf(start, "key %s: found twice, want every key once", quote(key))
	}
	what := "key " + quote(key)
	kind, err := c.u32(what + ": value type")
	if err != nil {
		return err
	}
	count, array := uint64(1), false
	if kind == kindArray {
		array = true
		if kind, err = c.u32(what + ": element type"); err != nil {
			return err
		}
		if kind == kindArray {
			c.off -= 4
			return c.errorf("%s: an array of arrays, want an array of plain values", what)
		}
		if count, err = c.u64(what + ": array length"); err != nil {
			return err
		}
	}
	if int(kind) >= len(kindNames) {
		at, of := c.off-4, "value"
		if array {
			at, of = c.off-12, "element"
		}
		return p.errorf(at, "%s: %s type %d, want 0 to %d", what, of, kind, len(kindNames)-1)
	}
	v, err := c.value(what, kind, count, array)
	if err != nil {
		return err
	}
	p.kv[key] = len(p.kvs)
	p.kvs = append(p.kvs, KV{key, v})
	p.kvOffs = append(p.kvOffs, start)
	return nil
}

// readAlignment takes general.alignment or the format's default.
func (p *part) readAlignment() error {
	p.alignment = defaultAlignment
	i, ok := p.kv[keyAlignment]
	if !ok {
		return nil
	}
	if err := checkAlignment(p.kvs[i].Value); err != nil {
		return p.errorf(p.kvOffs[i], "%v", err)
	}
	p.alignment = int(p.kvs[i].Value.(uint32))
	return nil
}

// checkAlignment checks a value of general.alignment. llama.cpp reads a uint32
// only. Above 2^30 an int of 32 bits would not hold what is computed from it.
func checkAlignment(v any) error {
	a, ok := v.(uint32)
	if !ok {
		return fmt.Errorf("key %q: found %s, want uint32", keyAlignment, describe(v))
	}
	if a < 8 || a > 1<<30 || bits.OnesCount32(a) != 1 {
		return fmt.Errorf("key %q: found %d, want a power of two from 8 to %d", keyAlignment, a, 1<<30)
	}
	return nil
}

// tensorInfo reads one entry of the tensor directory and returns the offset of
// its data from the start of the data section, not checked yet.
func (c *cursor) tensorInfo(p *part, names map[string]bool, i, n uint64) (offset uint64, err error) {
	start := c.off
	name, err := c.name(fmt.Sprintf("tensor %d of %d", i+1, n), maxTensorName)
	if err != nil {
		return 0, err
	}
	if names[name] {
		return 0, p.errorf(start, "tensor %q: found twice, want every name once", name)
	}
	names[name] = true
	what := fmt.Sprintf("tensor %q", name)
	nDims, err := c.u32(what + ": number of dimensions")
	if err != nil {
		return 0, err
	}
	if nDims < 1 || nDims > maxDims {
		c.off -= 4
		return 0, c.errorf("%s: %d dimensions, want 1 to %d", what, nDims, maxDims)
	}
	dimsAt := c.off
	dims := make([]int, nDims)
	for j := range dims {
		d, err := c.u64(fmt.Sprintf("%s: dimension %d", what, j))
		if err != nil {
			return 0, err
		}
		if d < 1 || d > math.MaxInt {
			c.off -= 8
			return 0, c.errorf("%s: dimension %d is %d, want 1 to %d", what, j, d, math.MaxInt)
		}
		dims[j] = int(d)
	}
	typ, err := c.u32(what + ": type")
	if err != nil {
		return 0, err
	}
	if err := checkType(Type(typ)); err != nil {
		c.off -= 4
		return 0, c.errorf("%s: %v", what, err)
	}
	size, err := tensorBytes(Type(typ), dims)
	if err != nil {
		return 0, p.errorf(dimsAt, "%s: %v", what, err)
	}
	if size > len(c.data) {
		return 0, p.errorf(dimsAt, "%s: %s %v is %d bytes, more than the file's %d", what, Type(typ), dims, size, len(c.data))
	}
	offset, err = c.u64(what + ": offset")
	if err != nil {
		return 0, err
	}
	p.tensors = append(p.tensors, Tensor{Name: name, Type: Type(typ), Dims: dims})
	p.tensorOffs = append(p.tensorOffs, start)
	return offset, nil
}

// checkType refuses what is not a type of weights in a file.
func checkType(t Type) error {
	if !t.Known() || t == Q8_1 || t == Q8_K {
		return fmt.Errorf("type %d is not supported, want one of %s", uint32(t), strings.Join(fileTypes(), ", "))
	}
	return nil
}

// fileTypes lists the types that a file may hold, with their numbers.
func fileTypes() []string {
	var known []Type
	for t := range types {
		if t != Q8_1 && t != Q8_K {
			known = append(known, t)
		}
	}
	slices.Sort(known)
	names := make([]string, len(known))
	for i, t := range known {
		names[i] = fmt.Sprintf("%d (%s)", uint32(t), t)
	}
	return names
}

// tensorBytes is the size of a tensor, with every step checked: the row is a
// whole number of blocks, and neither the bytes nor the elements overflow an
// int, since everyone downstream multiplies them out.
func tensorBytes(t Type, dims []int) (int, error) {
	if dims[0]%t.BlockSize() != 0 {
		return 0, fmt.Errorf("a row of %d elements of %s, want a multiple of %d", dims[0], t, t.BlockSize())
	}
	_, elements := product(dims...)
	size, bytes := product(append([]int{dims[0] / t.BlockSize(), t.BlockBytes()}, dims[1:]...)...)
	if !elements || !bytes {
		return 0, fmt.Errorf("the size of %s %v overflows", t, dims)
	}
	return size, nil
}

// product multiplies positive factors and reports whether the result fits an int.
func product(factors ...int) (int, bool) {
	n := uint64(1)
	for _, f := range factors {
		hi, lo := bits.Mul64(n, uint64(f))
		if hi != 0 || lo > math.MaxInt {
			return 0, false
		}
		n = lo
	}
	return int(n), true
}

// place checks where the tensors' data lie and slices them out of the part.
// end is where the directory ends; the data section begins at the next multiple
// of the alignment.
func (p *part) place(end int, offsets []uint64) error {
	if len(offsets) == 0 {
		return nil
	}
	start := pad(int64(end), p.alignment)
	if start > int64(len(p.data)) {
		return p.errorf(end, "the data section begins at byte %d (alignment %d), the file ends at %d", start, p.alignment, len(p.data))
	}
	base := int(start)
	room := uint64(len(p.data) - base)
	for i := range p.tensors {
		t := &p.tensors[i]
		size, _ := tensorBytes(t.Type, t.Dims) // it was checked when the entry was read
		off := offsets[i]
		if off%uint64(p.alignment) != 0 {
			return p.errorf(p.tensorOffs[i], "tensor %q: offset %d, want a multiple of %d", t.Name, off, p.alignment)
		}
		if off > room || uint64(size) > room-off {
			return p.errorf(p.tensorOffs[i], "tensor %q: %d bytes at offset %d, but the data section has %d bytes", t.Name, size, off, room)
		}
		at := base + int(off)
		t.Data = p.data[at : at+size : at+size]
	}
	order := make([]int, len(offsets))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(offsets[a], offsets[b]) })
	for k := 1; k < len(order); k++ {
		a, b := order[k-1], order[k]
		if last := offsets[a] + uint64(len(p.tensors[a].Data)); last > offsets[b] {
			return p.errorf(p.tensorOffs[b], "tensor %q at offset %d overlaps tensor %q, offsets %d to %d", p.tensors[b].Name, offsets[b], p.tensors[a].Name, offsets[a], last)
		}
	}
	return nil
}

// pad rounds n up to a multiple of the alignment.
func pad(n int64, alignment int) int64 {
	a := int64(alignment)
	return (n + a - 1) &^ (a - 1)
}

// A cursor reads one part from front to back.
type cursor struct {
	path string
	data []byte
	off  int
}

func (c *cursor) left() int { return len(c.data) - c.off }

func (c *cursor) errorf(format string, args ...any) error {
	return fmt.Errorf("gguf: %s: byte %d: %s", c.path, c.off, fmt.Sprintf(format, args...))
}

func (c *cursor) u32(what string) (uint32, error) {
	if c.left() < 4 {
		return 0, c.errorf("%s: want 4 bytes, the file ends after %d", what, c.left())
	}
	v := binary.LittleEndian.Uint32(c.data[c.off:])
	c.off += 4
	return v, nil
}

func (c *cursor) u64(what string) (uint64, error) {
	if c.left() < 8 {
		return 0, c.errorf("%s: want 8 bytes, the file ends after %d", what, c.left())
	}
	v := binary.LittleEndian.Uint64(c.data[c.off:])
	c.off += 8
	return v, nil
}

// bytes skips a length and the bytes it counts, and returns where these are.
func (c *cursor) bytes(what string) (start, end int, err error) {
	n, err := c.u64(what + ": length")
	if err != nil {
		return 0, 0, err
	}
	if n > uint64(c.left()) {
		left := c.left()
		c.off -= 8
		return 0, 0, c.errorf("%s: a length of %d bytes, but the file ends after %d", what, n, left)
	}
	start = c.off
	c.off += int(n)
	return start, c.off, nil
}

func (c *cursor) str(what string) (string, error) {
	start, end, err := c.bytes(what)
	return string(c.data[start:end]), err
}

// strs reads n strings. They share one copy of their region: a vocabulary is
// hundreds of thousands of short strings.
func (c *cursor) strs(what string, n int) ([]string, error) {
	begin, data := c.off, c.data
	for i := range n {
		// Messages are made for what is wrong only: they would cost more than the strings.
		if size, left := uint64(0), uint64(len(data)-c.off); left >= 8 {
			if size = binary.LittleEndian.Uint64(data[c.off:]); size <= left-8 {
				c.off += 8 + int(size)
				continue
			}
		}
		_, _, err := c.bytes(fmt.Sprintf("%s: element %d of %d", what, i, n))
		return nil, err
	}
	region := string(data[begin:c.off])
	out := make([]string, n)
	at := begin
	for i := range out {
		size := int(binary.LittleEndian.Uint64(data[at:]))
		at += 8
		out[i] = region[at-begin : at-begin+size]
		at += size
	}
	return out, nil
}

// name reads a key or a tensor's name.
func (c *cursor) name(what string, limit int) (string, error) {
	at := c.off
	s, err := c.str(what + ": name")
	if err != nil {
		return "", err
	}
	if err := checkName(s, limit); err != nil {
		c.off = at
		return "", c.errorf("%s: %v", what, err)
	}
	return s, nil
}

// checkName holds a key or a tensor's name to what every reader can take.
func checkName(s string, limit int) error {
	switch {
	case s == "":
		return errors.New("an empty name")
	case len(s) > limit:
		return fmt.Errorf("a name of %d bytes, want at most %d", len(s), limit)
	case !utf8.ValidString(s):
		return fmt.Errorf("name %s is not UTF-8", quote(s))
	case strings.ContainsRune(s, 0):
		return fmt.Errorf("name %s contains a zero byte", quote(s))
	}
	return nil
}

// quote quotes a name out of a file, cut where it is longer than a line's worth.
func quote(s string) string {
	const most = 128
	if len(s) <= most {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%q...", s[:most])
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
