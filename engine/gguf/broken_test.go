package gguf

import (
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite testdata/broken: the files and errors.txt; review the diff")

// An image builds a file byte by byte, with none of the package's own code, so
// that it can be wrong in any way.
type image struct {
	b     []byte
	marks map[string]int // where a named field begins
}

func (m *image) mark(name string) *image {
	if m.marks == nil {
		m.marks = map[string]int{}
	}
	m.marks[name] = len(m.b)
	return m
}

func (m *image) raw(b ...byte) *image { m.b = append(m.b, b...); return m }
func (m *image) u16(v uint16) *image  { m.b = binary.LittleEndian.AppendUint16(m.b, v); return m }
func (m *image) u32(v uint32) *image  { m.b = binary.LittleEndian.AppendUint32(m.b, v); return m }
func (m *image) u64(v uint64) *image  { m.b = binary.LittleEndian.AppendUint64(m.b, v); return m }
func (m *image) str(s string) *image  { return m.u64(uint64(len(s))).raw([]byte(s)...) }

func (m *image) header(tensors, keys uint64) *image {
	return m.raw([]byte("GGUF")...).mark("version").u32(3).mark("tensors").u64(tensors).mark("keys").u64(keys)
}

func (m *image) tensor(name string, typ uint32, offset uint64, dims ...uint64) *image {
	m.mark("tensor").mark(name).str(name).mark("dims count").u32(uint32(len(dims))).mark("dims")
	for _, d := range dims {
		m.u64(d)
	}
	return m.mark("type").u32(typ).mark("offset").u64(offset).mark("info end")
}

// data pads to the data section and appends n bytes that count up.
func (m *image) data(alignment, n int) *image {
	for len(m.b)%alignment != 0 {
		m.raw(0)
	}
	m.mark("data")
	for i := range n {
		m.raw(byte(i))
	}
	return m
}

// set overwrites a marked field.
func (m *image) set32(mark string, v uint32) *image {
	binary.LittleEndian.PutUint32(m.b[m.marks[mark]:], v)
	return m
}
func (m *image) set64(mark string, v uint64) *image {
	binary.LittleEndian.PutUint64(m.b[m.marks[mark]:], v)
	return m
}

// cut ends the file n bytes into a marked field.
func (m *image) cut(mark string, n int) *image { m.b = m.b[:m.marks[mark]+n]; return m }

// tiny is a whole valid file with every section in it: the broken ones start here.
func tiny() *image {
	m := new(image).header(2, 5)
	m.str("about").u32(8).str(strings.Repeat("long enough for the counts not to be what a truncated file fails on. ", 2))
	m.mark("key").str("general.architecture").mark("key type").u32(8).mark("string").str("none")
	m.mark("number key").str("n").u32(4).mark("number").u32(7)
	m.mark("bool key").str("yes").u32(7).mark("bool").raw(1)
	m.mark("array key").str("words").u32(9).mark("element type").u32(8).mark("array length").u64(2).mark("elements").str("ab").str("c")
	m.tensor("a", 0, 0, 8)
	m.tensor("b", 2, 32, 32, 2)
	return m.data(32, 32+36)
}

// oneKey is a valid file with one key and one tensor, where the key's type and
// value are given.
func oneKey(key string, value func(m *image)) *image {
	m := new(image).header(1, 1).mark("key").str(key)
	value(m)
	return m.tensor("a", 0, 0, 8).data(32, 32)
}

// oneTensor is a valid file but for the tensor.
func oneTensor(name string, typ uint32, offset uint64, dims ...uint64) *image {
	return new(image).header(1, 0).tensor(name, typ, offset, dims...).data(32, 64)
}

// partImage is one part of a model in parts, with one tensor.
func partImage(no, count uint16, tensors uint32, tensor string, extra ...string) *image {
	m := new(image).header(1, uint64(3+len(extra)))
	for _, key := range extra {
		m.str(key).u32(8).str("none")
	}
	m.str("split.no").u32(2).mark("no").u16(no)
	m.str("split.count").u32(2).mark("count").u16(count)
	m.str("split.tensors.count").u32(5).u32(tensors)
	return m.tensor(tensor, 0, 0, 8).data(32, 32)
}

const arch = "general.architecture"

// brokenFiles makes the corpus: file name to content. The first file of a case
// in name order is the one to open, unless its name is in openInstead.
func brokenFiles() map[string][]byte {
	out := map[string][]byte{}
	add := func(name string, m *image) { out[name+".gguf"] = m.b }
	parts := func(name string, images ...*image) {
		for i, m := range images {
			out[fmt.Sprintf("%s-%05d-of-%05d.gguf", name, i+1, len(images))] = m.b
		}
	}
	str := func(m *image) { m.u32(8).str("x") }

	add("magic-empty-file", &image{b: []byte{}})
	add("magic-truncated", tiny().cut("version", -2))
	add("magic-wrong", new(image).raw([]byte("GGML")...).u32(3).u64(0).u64(0))
	add("magic-big-endian", new(image).raw([]byte("FUGG")...).u32(3).u64(0).u64(0))
	add("version-truncated", tiny().cut("version", 3))
	add("version-1", tiny().set32("version", 1))
	add("version-4", tiny().set32("version", 4))
	add("version-big-endian", tiny().set32("version", 3<<24))
	add("counts-tensors-truncated", tiny().cut("tensors", 7))
	add("counts-keys-truncated", tiny().cut("keys", 1))
	add("counts-tensors-hostile", tiny().set64("tensors", 1<<60))
	add("counts-keys-hostile", tiny().set64("keys", 1<<60))
	add("counts-all-ones", tiny().set64("tensors", math.MaxUint64).set64("keys", math.MaxUint64))
	add("counts-tensors-one-more", oneTensor("a", 0, 0, 8).set64("tensors", 2))

	add("key-length-truncated", tiny().cut("key", 5))
	add("key-truncated", tiny().cut("key", 12))
	add("key-length-hostile", tiny().set64("key", 1<<63))
	add("key-empty", oneKey("", str))
	add("key-not-utf8", oneKey("a\xff", str))
	add("key-zero-byte", oneKey("a\x00b", str))
	add("key-newline-twice", new(image).header(0, 2).str("a\nb").u32(0).raw(1).str("a\nb").u32(0).raw(1))
	add("key-twice", new(image).header(0, 2).str("n").u32(0).raw(1).str("n").u32(0).raw(1))
	add("key-type-truncated", tiny().cut("key type", 2))
	add("key-type-unknown", tiny().set32("key type", 13))
	add("value-truncated", tiny().cut("number", 3))
	add("value-string-length-truncated", tiny().cut("string", 4))
	add("value-string-length-hostile", tiny().set64("string", 1<<62))
	add("value-string-truncated", tiny().cut("string", 10))
	add("value-bool-2", oneKey("yes", func(m *image) { m.u32(7).raw(2) }))
	add("array-type-truncated", tiny().cut("element type", 0))
	add("array-type-unknown", tiny().set32("element type", 99))
	add("array-nested", tiny().set32("element type", 9))
	add("array-length-truncated", tiny().cut("array length", 6))
	add("array-length-hostile-strings", tiny().set64("array length", 1<<60))
	add("array-length-hostile-uint64", oneKey("n", func(m *image) { m.u32(9).u32(10).u64(1<<61 + 1).u64(5) }))
	add("array-length-hostile-uint8", oneKey("n", func(m *image) { m.u32(9).u32(0).u64(math.MaxUint64).u64(5) }))
	add("array-truncated", tiny().cut("elements", 9))
	add("array-string-length-hostile", oneKey("n", func(m *image) { m.u32(9).u32(8).u64(2).str("ab").u64(1 << 40) }))
	add("array-bool-3", oneKey("n", func(m *image) { m.u32(9).u32(7).u64(3).raw(0, 1, 3) }))

	alignment := func(v uint32) func(*image) { return func(m *image) { m.u32(4).u32(v) } }
	add("alignment-0", oneKey("general.alignment", alignment(0)))
	add("alignment-4", oneKey("general.alignment", alignment(4)))
	add("alignment-24", oneKey("general.alignment", alignment(24)))
	add("alignment-hostile", oneKey("general.alignment", alignment(1<<31)))
	add("alignment-beyond-file", oneKey("general.alignment", alignment(1<<30)))
	add("alignment-type", oneKey("general.alignment", func(m *image) { m.u32(10).u64(32) }))

	add("tensor-name-length-truncated", tiny().cut("b", 3))
	add("tensor-name-length-hostile", tiny().set64("b", 1<<60))
	add("tensor-name-empty", oneTensor("", 0, 0, 8))
	add("tensor-name-64-bytes", oneTensor(strings.Repeat("w", 64), 0, 0, 8))
	add("tensor-name-not-utf8", oneTensor("\xc3(", 0, 0, 8))
	add("tensor-name-zero-byte", oneTensor("a\x00", 0, 0, 8))
	add("tensor-name-twice", new(image).header(2, 0).tensor("a", 0, 0, 8).tensor("a", 0, 32, 8).data(32, 64))
	add("tensor-dims-count-truncated", tiny().cut("dims count", 1))
	add("tensor-dims-none", new(image).header(1, 0).str("a").u32(0).u32(0).u64(0).data(32, 64))
	add("tensor-dims-five", oneTensor("a", 0, 0, 1, 1, 1, 1, 1))
	add("tensor-dims-truncated", tiny().cut("dims", 11))
	add("tensor-dims-zero", oneTensor("a", 0, 0, 8, 0))
	add("tensor-dims-hostile", oneTensor("a", 0, 0, 1<<63))
	add("tensor-dims-product-overflow", oneTensor("a", 0, 0, 1<<32, 1<<32))
	add("tensor-dims-product-wraps-to-small", oneTensor("a", 0, 0, 1<<32, 1<<32+1))
	add("tensor-dims-bytes-overflow", oneTensor("a", 0, 0, 1<<31, 1<<30))
	add("tensor-dims-elements-overflow", oneTensor("a", 2, 0, 1<<40, 1<<23))
	add("tensor-dims-beyond-file", oneTensor("a", 0, 0, 1<<40))
	add("tensor-type-truncated", tiny().cut("type", 3))
	add("tensor-type-removed", oneTensor("a", 4, 0, 32))
	add("tensor-type-unknown", oneTensor("blk.0.attn_q.weight", 16, 0, 256))
	add("tensor-type-hostile", oneTensor("a", math.MaxUint32, 0, 32))
	add("tensor-type-activations", oneTensor("a", 9, 0, 32))
	add("tensor-row-not-whole-blocks", oneTensor("a", 2, 0, 33))
	add("tensor-offset-truncated", tiny().cut("offset", 2))
	add("tensor-offset-unaligned", oneTensor("a", 0, 8, 8))
	add("tensor-offset-beyond-file", oneTensor("a", 0, 1024, 8))
	add("tensor-offset-hostile", oneTensor("a", 0, math.MaxUint64-31, 8))
	add("tensor-overlap", new(image).header(2, 0).tensor("a", 0, 32, 8).tensor("b", 0, 0, 9).data(32, 96))
	add("tensor-same-place", new(image).header(2, 0).tensor("a", 0, 0, 8).tensor("b", 0, 0, 8).data(32, 64))
	add("padding-truncated", tiny().cut("info end", 1))
	add("data-truncated", tiny().cut("data", 50))
	add("data-none", tiny().cut("data", 0))

	first := func() *image { return partImage(0, 2, 2, "a", arch) }
	second := func() *image { return partImage(1, 2, 2, "b") }
	parts("part-missing", first(), second())
	delete(out, "part-missing-00002-of-00002.gguf")
	parts("part-second", first(), second())
	parts("part-order-wrong", second(), first())
	parts("part-number-wrong", first(), partImage(2, 2, 2, "b"))
	parts("part-count-wrong", first(), partImage(1, 3, 2, "b"))
	parts("part-count-and-name", partImage(0, 3, 2, "a", arch), second())
	parts("part-name-and-no-count", tiny(), second())
	parts("part-tensors-wrong", partImage(0, 2, 3, "a", arch), partImage(1, 2, 3, "b"))
	parts("part-tensors-differ", first(), partImage(1, 2, 3, "b"))
	parts("part-tensor-twice", first(), partImage(1, 2, 2, "a"))
	parts("part-truncated", first(), second().cut("data", 8))
	parts("part-without-keys", first(), oneTensor("b", 0, 0, 8))
	parts("part-with-metadata", first(), partImage(1, 2, 2, "b", "general.name"))
	add("part-name-plain", first())
	add("part-number-in-plain-file", second())
	add("part-count-hostile", oneKey("split.count", func(m *image) { m.u32(4).u32(1 << 20) }))
	add("part-count-type", oneKey("split.count", func(m *image) { m.u32(6).u32(0x40000000) }))
	add("part-number-type", oneKey("split.no", func(m *image) { m.u32(10).u64(math.MaxUint64) }))
	return out
}

// openInstead names the file to open where it is not the case's first.
var openInstead = map[string]string{"part-second-00001-of-00002.gguf": "part-second-00002-of-00002.gguf"}

// TestBroken opens every file of testdata/broken: each gives the one line that
// errors.txt has for it, and allocates in proportion to its size, whatever its
// counts say.
func TestBroken(t *testing.T) {
	dir := filepath.Join("testdata", "broken")
	golden := filepath.Join(dir, "errors.txt")
	files := brokenFiles()
	if *update {
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.MkdirAll(dir, 0o777))
		for name, b := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o666))
		}
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var committed []string
	for _, e := range entries {
		if e.Name() != filepath.Base(golden) {
			committed = append(committed, e.Name())
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(files)), committed, "the files of testdata/broken; -update rewrites them")

	var lines strings.Builder
	for _, name := range committed {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, files[name], b, "%s is not what the test makes; -update rewrites it", name)
		require.Less(t, len(b), 1024, name)
		if _, no, _, named := splitName(name); named && no > 0 {
			continue
		}
		if instead, ok := openInstead[name]; ok {
			name = instead
		}
		path := filepath.Join(dir, name)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f, err := Open(path)
		runtime.ReadMemStats(&after)
		require.Error(t, err, name)
		require.Nil(t, f, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<10), "%s: bytes allocated", name)
		text := err.Error()
		require.NotContains(t, text, "\n", name)
		require.True(t, strings.HasPrefix(text, "gguf: "+dir+string(filepath.Separator)), text)
		fmt.Fprintf(&lines, "%s\n", strings.ReplaceAll(text, dir+string(filepath.Separator), ""))
	}
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(lines.String()), 0o666))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), lines.String())
}

// TestBrokenControls opens what the broken files are made from: without its
// one fault, each kind of file opens.
func TestBrokenControls(t *testing.T) {
	for name, m := range map[string]*image{
		"tiny":      tiny(),
		"oneKey":    oneKey("k", func(m *image) { m.u32(8).str("x") }),
		"bools":     oneKey("k", func(m *image) { m.u32(9).u32(7).u64(3).raw(0, 1, 1) }),
		"oneTensor": oneTensor("a", 0, 32, 8),
		"name 63":   oneTensor(strings.Repeat("w", 63), 0, 0, 8),
		"alignment": oneKey("general.alignment", func(m *image) { m.u32(4).u32(8) }),
		"unordered": new(image).header(2, 0).tensor("a", 0, 64, 8).tensor("b", 0, 0, 9).data(32, 96),
		"merged":    oneKey("split.count", func(m *image) { m.u32(2).u16(0) }),
	} {
		f, err := Read(name, m.b)
		require.NoError(t, err)
		require.Len(t, f.Parts, 1)
		require.NotEmpty(t, f.Tensors)
	}
	f, err := Read("x-00001-of-00002.gguf", partImage(0, 2, 2, "a", arch).b, partImage(1, 2, 2, "b", arch).b)
	require.NoError(t, err)
	require.Equal(t, "x-00002-of-00002.gguf", f.Parts[1].Path)
	require.Equal(t, 1, f.Tensors[1].Part)

	// gguf-split can leave the first part to the metadata.
	meta := new(image).header(0, 3).str("split.no").u32(2).u16(0).str("split.count").u32(2).u16(2).str("split.tensors.count").u32(5).u32(1)
	f, err = Read("m", meta.b, partImage(1, 2, 1, "b").b)
	require.NoError(t, err)
	require.Len(t, f.Tensors, 1)
	require.Equal(t, 1, f.Tensors[0].Part)
}

// TestBrokenOutsideFiles has the faults that a small file can't hold.
func TestBrokenOutsideFiles(t *testing.T) {
	_, err := Read("m")
	require.EqualError(t, err, "gguf: m: no data: want one slice for each part")
	_, err = Read("m", partImage(0, 2, 2, "a").b)
	require.EqualError(t, err, `gguf: m: 1 part given, want 2 (key "split.count")`)
	_, err = Read("m", tiny().b, tiny().b)
	require.EqualError(t, err, `gguf: m: 2 parts given, want 1 (key "split.count")`)
	_, err = Read("m", oneKey(strings.Repeat("k", 65536), func(m *image) { m.u32(0).raw(1) }).b)
	require.EqualError(t, err, "gguf: m: byte 24: key 1 of 1: a name of 65536 bytes, want at most 65535")
	_, err = Open(filepath.Join("testdata", "none.gguf"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.EqualError(t, err, "gguf: open "+filepath.Join("testdata", "none.gguf")+": no such file or directory")
	_, err = Open("testdata")
	require.EqualError(t, err, "gguf: testdata: found a directory, want a regular file")

	// Every prefix of a file is an error, and never a panic.
	whole := tiny().b
	for n := range whole {
		_, err := Read("m", whole[:n:n])
		require.Error(t, err, "%d bytes", n)
	}
}
