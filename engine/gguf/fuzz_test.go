package gguf

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// FuzzRead reads arbitrary bytes, as one part or two. Bad input is one line of
// error. What is accepted has its tensors inside their parts and apart from
// each other, and comes out of a round trip through the writer unchanged.
func FuzzRead(f *testing.F) {
	entries, err := os.ReadDir(filepath.Join("testdata", "broken"))
	require.NoError(f, err)
	corpus := map[string][]byte{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join("testdata", "broken", e.Name()))
		require.NoError(f, err)
		corpus[e.Name()] = b
	}
	for name, b := range corpus {
		var second []byte
		if prefix, no, count, named := splitName(name); named {
			second = corpus[splitPath(prefix, 1-no, count)]
		}
		f.Add(b, second)
	}
	f.Add(tiny().b, []byte(nil))
	f.Add(tiny().set32("version", 2).b, []byte(nil))
	f.Add(partImage(0, 2, 2, "a", arch).b, partImage(1, 2, 2, "b").b)
	var every bytes.Buffer
	l, err := plan(Model{everyKind, someTensors()}, WriteOptions{Alignment: 8})
	require.NoError(f, err)
	require.NoError(f, l.writePart(&every, 0))
	f.Add(every.Bytes(), []byte(nil))

	f.Fuzz(func(t *testing.T, first, second []byte) {
		parts := [][]byte{first}
		if len(second) > 0 {
			parts = append(parts, second)
		}
		m, err := Read("m-00001-of-00002.gguf", parts...)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			require.True(t, strings.HasPrefix(err.Error(), "gguf: m-0000"), err.Error())
			return
		}
		checkPlacement(t, m)

		max := int64(0)
		if len(parts) == 2 && len(m.Tensors) > 1 {
			max = 1 // a part for each tensor
		}
		l, err := plan(m.Model(), WriteOptions{Version: m.Version, MaxPartBytes: max})
		require.NoError(t, err)
		if l.alignment > 1<<20 {
			return // the padding alone would take all the time
		}
		var again [][]byte
		for i := range l.parts {
			var b bytes.Buffer
			require.NoError(t, l.writePart(&b, i))
			again = append(again, b.Bytes())
		}
		m2, err := Read("m", again...)
		require.NoError(t, err)
		checkPlacement(t, m2)
		require.Equal(t, m.Version, m2.Version)
		require.Equal(t, m.Alignment, m2.Alignment)
		// As bytes, since NaN is not equal to itself.
		require.Equal(t, metadata(m), metadata(m2))
		require.Len(t, m2.Tensors, len(m.Tensors))
		for i, a := range m.Tensors {
			b := m2.Tensors[i]
			a.Part, b.Part = 0, 0
			require.Equal(t, a, b)
		}
	})
}

func checkPlacement(t *testing.T, f *File) {
	type span struct{ from, to uintptr }
	var taken []span
	for i := range f.Tensors {
		w := &f.Tensors[i]
		found, ok := f.Tensor(w.Name)
		require.True(t, ok)
		require.Same(t, w, found)
		size := w.Type.RowBytes(w.Dims[0])
		for _, d := range w.Dims[1:] {
			size *= d
		}
		require.Len(t, w.Data, size)
		part := f.Parts[w.Part].Data
		at := uintptr(unsafe.Pointer(&w.Data[0]))
		start := uintptr(unsafe.Pointer(&part[0]))
		require.GreaterOrEqual(t, at, start)
		require.LessOrEqual(t, at+uintptr(size), start+uintptr(len(part)))
		for _, s := range taken {
			require.True(t, at >= s.to || at+uintptr(size) <= s.from, "tensor %q overlaps another", w.Name)
		}
		taken = append(taken, span{at, at + uintptr(size)})
	}
}

// metadata encodes all keys but those of the split.
func metadata(f *File) []byte {
	var b []byte
	for _, kv := range f.KVs {
		if !strings.HasPrefix(kv.Key, "split.") {
			b = appendValue(appendString(b, kv.Key), kv.Value)
		}
	}
	return b
}
