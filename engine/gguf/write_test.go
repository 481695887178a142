package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// everyKind has one value of each type that metadata can have.
var everyKind = []KV{
	{"general.architecture", "none"},
	{"u8", uint8(255)}, {"i8", int8(-128)}, {"u16", uint16(65535)}, {"i16", int16(-32768)},
	{"u32", uint32(1 << 31)}, {"i32", int32(-1)}, {"f32", float32(1e-6)}, {"bool", true},
	{"u64", uint64(math.MaxUint64)}, {"i64", int64(math.MinInt64)}, {"f64", math.Pi},
	{"empty", ""}, {"text", "two\nlines, \xff"},
	{"u8s", []uint8{1, 2}}, {"i8s", []int8{-1}}, {"u16s", []uint16{}}, {"i16s", []int16{3}},
	{"u32s", []uint32{4, 5, 6}}, {"i32s", []int32{-7}}, {"f32s", []float32{0.5, float32(math.Inf(1))}},
	{"bools", []bool{true, false}}, {"strs", []string{"", "a", "Ġb"}},
	{"u64s", []uint64{8}}, {"i64s", []int64{-9}}, {"f64s", []float64{math.Copysign(0, -1)}},
}

// someTensors has odd sizes: nothing but the first ends at an alignment.
func someTensors() []TensorSpec {
	fill := func(n, from int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(from + i*7)
		}
		return b
	}
	return []TensorSpec{
		BytesSpec("a", F32, []int{8}, fill(32, 1)),
		BytesSpec("b", F16, []int{1}, fill(2, 2)),
		BytesSpec("c", Q4_0, []int{32, 3}, fill(54, 3)),
		BytesSpec("d", Q6_K, []int{256, 1, 1, 2}, fill(420, 4)),
		BytesSpec("e", I32, []int{3, 5, 1}, fill(60, 5)),
	}
}

func content(t *testing.T, s TensorSpec) []byte {
	var b bytes.Buffer
	require.NoError(t, s.WriteTo(&b))
	return b.Bytes()
}

func TestWriteThenOpen(t *testing.T) {
	for _, version := range []uint32{2, 3} {
		for _, alignment := range []int{0, 8, 64, 4096} {
			for _, c := range []struct {
				max   int64
				parts []int // of each tensor
			}{
				{0, []int{0, 0, 0, 0, 0}},
				{1 << 40, []int{0, 0, 0, 0, 0}},
				{1, []int{0, 1, 2, 3, 4}},
			} {
				t.Run(fmt.Sprintf("version=%d alignment=%d max=%d", version, alignment, c.max), func(t *testing.T) {
					dir := t.TempDir()
					path := filepath.Join(dir, "m.gguf")
					tensors := someTensors()
					paths, err := Write(path, Model{everyKind, tensors}, WriteOptions{version, alignment, c.max})
					require.NoError(t, err)
					parts := c.parts[4] + 1
					require.Equal(t, paths, list(t, dir))
					if parts == 1 {
						require.Equal(t, []string{path}, paths)
					} else {
						require.Equal(t, filepath.Join(dir, "m-00005-of-00005.gguf"), paths[4])
					}

					f, err := Open(paths[0])
					require.NoError(t, err)
					defer f.Close()
					require.Equal(t, version, f.Version)
					require.Len(t, f.Parts, parts)
					want := append([]KV{}, everyKind...)
					if alignment != 0 {
						require.Equal(t, alignment, f.Alignment)
						want = append(want, KV{"general.alignment", uint32(alignment)})
					} else {
						require.Equal(t, 32, f.Alignment)
					}
					if parts > 1 {
						want = append(want, KV{"split.no", uint16(0)}, KV{"split.count", uint16(5)}, KV{"split.tensors.count", int32(5)})
					}
					require.Equal(t, want, f.KVs)
					for i, s := range tensors {
						require.Equal(t, Tensor{s.Name, s.Type, s.Dims, c.parts[i], content(t, s)}, f.Tensors[i])
					}
				})
			}
		}
	}
}

// The bytes of a small file, and of two parts, against images that the test
// builds without the writer.
func TestWriteBytes(t *testing.T) {
	m := Model{
		KVs: []KV{{"general.architecture", "none"}, {"split.count", uint16(9)}, {"words", []string{"ab", "c"}}},
		Tensors: []TensorSpec{
			BytesSpec("a", F16, []int{3}, []byte{0, 1, 2, 3, 4, 5}),
			BytesSpec("b", F32, []int{2, 1}, []byte{32, 33, 34, 35, 36, 37, 38, 39}),
		},
	}
	keys := func(im *image) *image {
		im.str("general.architecture").u32(8).str("none")
		return im.str("words").u32(9).u32(8).u64(2).str("ab").str("c")
	}
	split := func(im *image, no uint16) *image {
		return im.str("split.no").u32(2).u16(no).str("split.count").u32(2).u16(2).str("split.tensors.count").u32(5).u32(2)
	}
	pads := func(im *image, data []byte) []byte {
		im.data(32, 0).raw(data...)
		return im.data(32, 0).b
	}
	dir := t.TempDir()

	paths, err := Write(filepath.Join(dir, "m.gguf"), m, WriteOptions{})
	require.NoError(t, err)
	im := keys(new(image).header(2, 2)).tensor("a", 1, 0, 3).tensor("b", 0, 32, 2, 1).data(32, 6)
	require.Equal(t, pads(im, []byte{32, 33, 34, 35, 36, 37, 38, 39}), read(t, paths[0]))

	paths, err = Write(filepath.Join(dir, "m.gguf"), m, WriteOptions{MaxPartBytes: 63})
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "m-00001-of-00002.gguf"), filepath.Join(dir, "m-00002-of-00002.gguf")}, paths)
	im = split(keys(new(image).header(1, 5)), 0).tensor("a", 1, 0, 3)
	require.Equal(t, pads(im, []byte{0, 1, 2, 3, 4, 5}), read(t, paths[0]))
	im = split(new(image).header(1, 3), 1).tensor("b", 0, 0, 2, 1)
	require.Equal(t, pads(im, []byte{32, 33, 34, 35, 36, 37, 38, 39}), read(t, paths[1]))

	paths, err = Write(filepath.Join(dir, "m.gguf"), m, WriteOptions{MaxPartBytes: 64})
	require.NoError(t, err)
	require.Len(t, paths, 1, "both tensors are 64 bytes with their padding")
}

func TestWriteNoTensors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vocab.gguf")
	_, err := Write(path, Model{KVs: everyKind}, WriteOptions{MaxPartBytes: 1})
	require.NoError(t, err)
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, everyKind, f.KVs)
	require.Empty(t, f.Tensors)
}

// A model is written over the file that it is read from.
func TestWriteOverItself(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	_, err := Write(path, Model{everyKind, someTensors()}, WriteOptions{Version: 2, Alignment: 64})
	require.NoError(t, err)
	before := read(t, path)
	f, err := Open(path)
	require.NoError(t, err)
	_, err = Write(path, f.Model(), WriteOptions{Version: f.Version})
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, before, read(t, path))

	parts, err := Write(path, Model{everyKind, someTensors()}, WriteOptions{Version: 2, Alignment: 64, MaxPartBytes: 512})
	require.NoError(t, err)
	require.Len(t, parts, 2)
	f, err = Open(parts[0])
	require.NoError(t, err)
	joined := filepath.Join(dir, "joined.gguf")
	_, err = Write(joined, f.Model(), WriteOptions{Version: 2})
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, before, read(t, joined), "split and joined again")
}

// A failure leaves nothing of this call behind and an older file as it was.
func TestWriteFailure(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		last TensorSpec
		err  string
	}{
		"error":    {TensorSpec{"z", F32, []int{2}, func(io.Writer) error { return boom }}, `tensor "z": boom`},
		"too few":  {BytesSpec("z", F32, []int{2}, make([]byte, 7)), `tensor "z": 1 bytes are missing, want 8`},
		"too many": {BytesSpec("z", F32, []int{2}, make([]byte, 11)), `tensor "z": 3 bytes too many`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m := Model{everyKind, append(someTensors(), c.last)}
			path, last := filepath.Join(dir, "m.gguf"), filepath.Join(dir, "m-00006-of-00006.gguf")
			require.NoError(t, os.WriteFile(path, []byte("old"), 0o666))

			_, err := Write(path, m, WriteOptions{})
			require.EqualError(t, err, "gguf: "+path+": "+c.err)
			_, err = Write(path, m, WriteOptions{MaxPartBytes: 1})
			require.EqualError(t, err, "gguf: "+last+": "+c.err)
			require.Equal(t, []string{path}, list(t, dir))
			require.Equal(t, "old", string(read(t, path)))
		})
	}
	t.Run("panic", func(t *testing.T) {
		dir := t.TempDir()
		m := Model{nil, []TensorSpec{{"z", F32, []int{2}, func(io.Writer) error { panic(boom) }}}}
		require.PanicsWithError(t, "boom", func() { _, _ = Write(filepath.Join(dir, "m.gguf"), m, WriteOptions{}) })
		require.Empty(t, list(t, dir))
	})
	t.Run("rename", func(t *testing.T) {
		dir := t.TempDir()
		last := filepath.Join(dir, "m-00005-of-00005.gguf")
		require.NoError(t, os.Mkdir(last, 0o777))
		_, err := Write(filepath.Join(dir, "m.gguf"), Model{nil, someTensors()}, WriteOptions{MaxPartBytes: 1})
		require.ErrorContains(t, err, "gguf: rename ")
		require.Equal(t, []string{last}, list(t, dir))
	})
	t.Run("no directory", func(t *testing.T) {
		_, err := Write(filepath.Join(t.TempDir(), "none", "m.gguf"), Model{}, WriteOptions{})
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

// What can't be read back is not written, and no file is made.
func TestWriteRefuses(t *testing.T) {
	one := func(s TensorSpec) Model {
		if s.WriteTo == nil {
			s.WriteTo = func(io.Writer) error { return nil }
		}
		return Model{nil, []TensorSpec{s}}
	}
	keys := func(kvs ...KV) Model { return Model{KVs: kvs} }
	for _, c := range []struct {
		m   Model
		opt WriteOptions
		err string
	}{
		{Model{}, WriteOptions{Version: 1}, "version 1, want 2 or 3"},
		{Model{}, WriteOptions{Alignment: 24}, `key "general.alignment": found 24, want a power of two from 8 to 1073741824`},
		{Model{}, WriteOptions{Alignment: -8}, "alignment -8, want a power of two from 8"},
		{Model{}, WriteOptions{MaxPartBytes: -1}, "parts of at most -1 bytes, want at least 1"},
		{keys(KV{"general.alignment", uint32(4)}), WriteOptions{}, `key "general.alignment": found 4, want a power of two from 8 to 1073741824`},
		{keys(KV{"general.alignment", int32(32)}), WriteOptions{}, `key "general.alignment": found int32 32, want uint32`},
		{keys(KV{"", uint8(1)}), WriteOptions{}, "key 1: an empty name"},
		{keys(KV{"a\xff", uint8(1)}), WriteOptions{}, `key 1: name "a\xff" is not UTF-8`},
		{keys(KV{"a", 1}), WriteOptions{}, `key "a": a int can't be metadata, want a value of KV's types`},
		{keys(KV{"a", nil}), WriteOptions{}, `key "a": a <nil> can't be metadata, want a value of KV's types`},
		{keys(KV{"a", [][]uint8{{1}}}), WriteOptions{}, `key "a": a [][]uint8 can't be metadata, want a value of KV's types`},
		{keys(KV{"a", true}, KV{"a", true}), WriteOptions{}, `key "a": found twice, want every key once`},
		{one(TensorSpec{Name: strings.Repeat("w", 64), Type: F32, Dims: []int{1}}), WriteOptions{}, `tensor "` + strings.Repeat("w", 64) + `": a name of 64 bytes, want at most 63`},
		{one(TensorSpec{Name: "a", Type: F32}), WriteOptions{}, `tensor "a": 0 dimensions, want 1 to 4`},
		{one(TensorSpec{Name: "a", Type: F32, Dims: []int{1, 1, 1, 1, 1}}), WriteOptions{}, `tensor "a": 5 dimensions, want 1 to 4`},
		{one(TensorSpec{Name: "a", Type: F32, Dims: []int{2, -1}}), WriteOptions{}, `tensor "a": dimension 1 is -1, want at least 1`},
		{one(TensorSpec{Name: "a", Type: Q5_0, Dims: []int{31}}), WriteOptions{}, `tensor "a": a row of 31 elements of q5_0, want a multiple of 32`},
		{one(TensorSpec{Name: "a", Type: F32, Dims: []int{1 << 62, 4}}), WriteOptions{}, `tensor "a": the size of f32 [4611686018427387904 4] overflows`},
		{one(TensorSpec{Name: "a", Type: F16, Dims: []int{1<<62 - 1}}), WriteOptions{}, `tensor "a": the size of the file overflows`},
		{Model{nil, []TensorSpec{{"a", F32, []int{1}, nil}}}, WriteOptions{}, `tensor "a": no WriteTo`},
		{Model{nil, append(someTensors(), someTensors()...)}, WriteOptions{}, `tensor "a": found twice, want every name once`},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "m.gguf")
		_, err := Write(path, c.m, c.opt)
		require.EqualError(t, err, "gguf: "+path+": "+c.err)
		require.Empty(t, list(t, dir), "files left")
	}
	_, err := Write("m-00002-of-00003.gguf", Model{}, WriteOptions{})
	require.EqualError(t, err, "gguf: m-00002-of-00003.gguf: the name says part 2 of 3, but the data are one part: want another name")
	_, err = (&TensorSpec{Name: "a", Type: Q8_K, Dims: []int{256}}).Bytes()
	require.ErrorContains(t, err, "type 15 is not supported, want one of 0 (f32), ")
	n, err := (&TensorSpec{Name: "a", Type: Q8_0, Dims: []int{64, 3}}).Bytes()
	require.NoError(t, err)
	require.Equal(t, 204, n)
}

// A tensor larger than any buffer goes through in pieces.
func TestWriteStreams(t *testing.T) {
	const rows, width = 700, 1024
	path := filepath.Join(t.TempDir(), "m.gguf")
	row := make([]byte, 4*width)
	_, err := Write(path, Model{nil, []TensorSpec{{"w", F32, []int{width, rows}, func(w io.Writer) error {
		for i := range rows {
			for j := range row {
				row[j] = byte(i)
			}
			if _, err := w.Write(row); err != nil {
				return err
			}
		}
		return nil
	}}}}, WriteOptions{})
	require.NoError(t, err)
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.Len(t, f.Tensors[0].Data, 4*width*rows)
	for i, b := range f.Tensors[0].Data {
		if want := byte(i / (4 * width)); b != want {
			require.Equal(t, want, b, "byte %d", i)
		}
	}
}

func list(t *testing.T, dir string) []string {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var paths []string
	for _, e := range entries {
		paths = append(paths, filepath.Join(dir, e.Name()))
	}
	return paths
}

func read(t *testing.T, path string) []byte {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}
