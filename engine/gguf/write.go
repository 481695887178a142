package gguf

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
)

// A Model is what Write writes.
type Model struct {
	KVs     []KV // split.* keys are left out: Write makes its own
	Tensors []TensorSpec
}

// A TensorSpec is a tensor to be written. WriteTo is called once, in the order
// of the tensors, and must write exactly the bytes that Type and Dims amount
// to; so a big tensor is never held in memory for the sake of the file.
type TensorSpec struct {
	Name    string
	Type    Type
	Dims    []int // innermost first
	WriteTo func(w io.Writer) error
}

// BytesSpec is the spec of a tensor whose bytes are in memory.
func BytesSpec(name string, t Type, dims []int, data []byte) TensorSpec {
	return TensorSpec{Name: name, Type: t, Dims: dims, WriteTo: func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}}
}

// Model returns what Write needs to write the same model again. The result
// refers to the file, which must stay open until it is written.
func (f *File) Model() Model {
	m := Model{KVs: slices.Clone(f.KVs)}
	for _, t := range f.Tensors {
		m.Tensors = append(m.Tensors, BytesSpec(t.Name, t.Type, t.Dims, t.Data))
	}
	return m
}

// Bytes is the number of bytes that the tensor occupies in a file, without
// padding. An impossible shape or type is an error.
func (s *TensorSpec) Bytes() (int, error) {
	err := checkName(s.Name, maxTensorName)
	if err == nil {
		err = checkType(s.Type)
	}
	if err == nil && (len(s.Dims) < 1 || len(s.Dims) > maxDims) {
		err = fmt.Errorf("%d dimensions, want 1 to %d", len(s.Dims), maxDims)
	}
	for i, d := range s.Dims {
		if err == nil && d < 1 {
			err = fmt.Errorf("dimension %d is %d, want at least 1", i, d)
		}
	}
	if err != nil {
		return 0, err
	}
	return tensorBytes(s.Type, s.Dims)
}

// WriteOptions are the choices in writing; the zero value is the usual file.
type WriteOptions struct {
	Version   uint32 // 2 or 3; 0 is 3
	Alignment int    // of the data, a power of two from 8; 0 is the model's general.alignment, else 32

	// MaxPartBytes bounds the tensor data of one part, padding included and
	// metadata not (llama.cpp's gguf-split counts so too). A tensor is never
	// divided: one that exceeds the bound has a part of its own. 0 is one file.
	MaxPartBytes int64
}

// Write writes a model and returns the paths of the files that it made: path
// itself, or, when the data need more than one part, the parts of
// PREFIX-00001-of-0000N.gguf where path is PREFIX.gguf.
//
// Everything is checked before a file is made; what Write writes, Open reads.
// The files appear under their names when all of them are complete, each by a
// rename that replaces an older file, which may be one that is mapped. On an
// error no file of this call remains.
func Write(path string, m Model, opt WriteOptions) ([]string, error) {
	l, err := plan(m, opt)
	if err != nil {
		return nil, fmt.Errorf("gguf: %s: %w", path, err)
	}
	paths := []string{path}
	if n := len(l.parts); n > 1 {
		prefix := strings.TrimSuffix(path, ".gguf")
		paths = paths[:0]
		for i := range l.parts {
			paths = append(paths, splitPath(prefix, i, n))
		}
	} else if _, no, count, named := splitName(path); named && (no != 0 || count != 1) {
		return nil, fmt.Errorf("gguf: %s: the name says part %d of %d, but the data are one part: want another name", path, no+1, count)
	}
	// Whatever is in here at the return is removed.
	var made []string
	defer func() {
		for _, p := range made {
			os.Remove(p)
		}
	}()
	var suffix [6]byte
	rand.Read(suffix[:])
	temps := make([]string, len(paths))
	for i, p := range paths {
		temps[i] = p + ".partial-" + hex.EncodeToString(suffix[:])
		// Not os.CreateTemp: the finished file should have the mode that the
		// user's umask gives.
		file, err := os.OpenFile(temps[i], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return nil, fmt.Errorf("gguf: %w", err)
		}
		made = append(made, temps[i])
		w := &pieceWriter{w: file}
		err = l.writePart(w, i)
		if err == nil {
			err = w.Flush()
		}
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return nil, fmt.Errorf("gguf: %s: %w", p, err)
		}
	}
	for i, p := range paths {
		if err := os.Rename(temps[i], p); err != nil {
			return nil, fmt.Errorf("gguf: %w", err)
		}
		made[i] = p
	}
	made = nil
	return paths, nil
}

// A layout is a checked model with its tensors dealt to parts.
type layout struct {
	version   uint32
	alignment int
	kvs       []KV
	tensors   []TensorSpec
	sizes     []int
	parts     [][2]int // first and one past the last tensor of each part
}

// plan checks a model and lays it out.
func plan(m Model, opt WriteOptions) (*layout, error) {
	l := &layout{version: opt.Version, alignment: defaultAlignment, tensors: m.Tensors}
	if l.version == 0 {
		l.version = 3
	}
	if l.version != 2 && l.version != 3 {
		return nil, fmt.Errorf("version %d, want 2 or 3", l.version)
	}
	if opt.MaxPartBytes < 0 {
		return nil, fmt.Errorf("parts of at most %d bytes, want at least 1", opt.MaxPartBytes)
	}
	if err := l.planKVs(m.KVs, opt.Alignment); err != nil {
		return nil, err
	}
	names := make(map[string]bool, len(m.Tensors))
	var total, inPart int64
	first := 0
	for i := range m.Tensors {
		t := &m.Tensors[i]
		size, err := t.Bytes()
		if err == nil && names[t.Name] {
			err = errors.New("found twice, want every name once")
		}
		if err == nil && t.WriteTo == nil {
			err = errors.New("no WriteTo")
		}
		if err == nil && int64(size) > math.MaxInt64-int64(l.alignment)-total {
			err = errors.New("the size of the file overflows")
		}
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		names[t.Name] = true
		l.sizes = append(l.sizes, size)
		padded := pad(int64(size), l.alignment)
		total += padded
		if i > first && opt.MaxPartBytes > 0 && inPart+padded > opt.MaxPartBytes {
			l.parts = append(l.parts, [2]int{first, i})
			first, inPart = i, 0
		}
		inPart += padded
	}
	l.parts = append(l.parts, [2]int{first, len(m.Tensors)})
	// split.count is a uint16 and split.tensors.count an int32.
	if len(l.parts) > math.MaxUint16 || len(l.parts) > 1 && len(m.Tensors) > math.MaxInt32 {
		return nil, fmt.Errorf("%d parts for %d tensors, want at most %d parts: make MaxPartBytes larger", len(l.parts), len(m.Tensors), math.MaxUint16)
	}
	return l, nil
}

// planKVs checks the metadata and settles the alignment.
func (l *layout) planKVs(kvs []KV, alignment int) error {
	if alignment != 0 {
		if alignment < 0 || int64(alignment) > math.MaxUint32 {
			return fmt.Errorf("alignment %d, want a power of two from 8", alignment)
		}
		if err := checkAlignment(uint32(alignment)); err != nil {
			return err
		}
		l.alignment = alignment
	}
	seen := make(map[string]bool, len(kvs))
	for i, kv := range kvs {
		if strings.HasPrefix(kv.Key, "split.") {
			continue
		}
		if err := checkName(kv.Key, maxKey); err != nil {
			return fmt.Errorf("key %d: %w", i+1, err)
		}
		if _, _, ok := kindOf(kv.Value); !ok {
			return fmt.Errorf("key %q: a %T can't be metadata, want a value of KV's types", kv.Key, kv.Value)
		}
		if seen[kv.Key] {
			return fmt.Errorf("key %q: found twice, want every key once", kv.Key)
		}
		seen[kv.Key] = true
		if kv.Key == keyAlignment {
			if alignment != 0 {
				kv.Value = uint32(alignment)
			}
			if err := checkAlignment(kv.Value); err != nil {
				return err
			}
			l.alignment = int(kv.Value.(uint32))
		}
		l.kvs = append(l.kvs, kv)
	}
	if l.alignment != defaultAlignment && !seen[keyAlignment] {
		l.kvs = append(l.kvs, KV{keyAlignment, uint32(l.alignment)})
	}
	return nil
}

// partKVs is the metadata of one part.
func (l *layout) partKVs(i int) []KV {
	var kvs []KV
	if i == 0 {
		kvs = slices.Clip(l.kvs)
	} else if l.alignment != defaultAlignment {
		kvs = []KV{{keyAlignment, uint32(l.alignment)}}
	}
	if len(l.parts) > 1 {
		// These widths are the ones that llama.cpp requires.
		kvs = append(kvs,
			KV{keySplitNo, uint16(i)},
			KV{keySplitCount, uint16(len(l.parts))},
			KV{keySplitTensors, int32(len(l.tensors))})
	}
	return kvs
}

// writePart writes one part. Tensors follow each other in the directory's
// order, each padded to the alignment, the last one too: llama.cpp refuses any
// other arrangement.
func (l *layout) writePart(w io.Writer, i int) error {
	le := binary.LittleEndian
	begin, end := l.parts[i][0], l.parts[i][1]
	kvs := l.partKVs(i)
	head := le.AppendUint32([]byte(magic), l.version)
	head = le.AppendUint64(head, uint64(end-begin))
	head = le.AppendUint64(head, uint64(len(kvs)))
	for _, kv := range kvs {
		head = appendValue(appendString(head, kv.Key), kv.Value)
	}
	offset := uint64(0)
	for j := begin; j < end; j++ {
		t := &l.tensors[j]
		head = appendString(head, t.Name)
		head = le.AppendUint32(head, uint32(len(t.Dims)))
		for _, d := range t.Dims {
			head = le.AppendUint64(head, uint64(d))
		}
		head = le.AppendUint32(head, uint32(t.Type))
		head = le.AppendUint64(head, offset)
		offset += uint64(pad(int64(l.sizes[j]), l.alignment))
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	if err := l.writePadding(w, len(head)); err != nil {
		return err
	}
	for j := begin; j < end; j++ {
		t := &l.tensors[j]
		exact := &exactWriter{w: w, left: l.sizes[j]}
		err := t.WriteTo(exact)
		if err == nil && exact.left > 0 {
			err = fmt.Errorf("%d bytes are missing, want %d", exact.left, l.sizes[j])
		}
		if err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if err := l.writePadding(w, l.sizes[j]); err != nil {
			return err
		}
	}
	return nil
}

// writePadding writes the zeros that follow n bytes.
func (l *layout) writePadding(w io.Writer, n int) error {
	var zeros [4096]byte
	for left := pad(int64(n), l.alignment) - int64(n); left > 0; {
		k, err := w.Write(zeros[:min(left, int64(len(zeros)))])
		if err != nil {
			return err
		}
		left -= int64(k)
	}
	return nil
}

// An exactWriter refuses to write beyond the size of a tensor.
type exactWriter struct {
	w    io.Writer
	left int
}

func (e *exactWriter) Write(p []byte) (int, error) {
	if len(p) > e.left {
		return 0, fmt.Errorf("%d bytes too many", len(p)-e.left)
	}
	n, err := e.w.Write(p)
	e.left -= n
	return n, err
}
