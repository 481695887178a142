package cuda

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
	"minfer/metal/mtl/mtltest"
)

// TestConformance holds the device against the suite of all devices.
func TestConformance(t *testing.T) {
	if !*onGPU {
		t.Skip("SKIPPED: nothing ran on a GPU; -cuda asks for it")
	}
	cache := t.TempDir()
	mtltest.Run(t, func(t testing.TB) mtl.Device {
		d, err := Open(DeviceOptions{Compiler: *nvrtcPath, Cache: cache})
		require.NoError(t, err)
		return d
	})
}

// What is not there is an error that says what.
func TestOpenWithoutGPU(t *testing.T) {
	_, err := Open(DeviceOptions{GPU: 1 << 20}) // no machine has as many
	require.ErrorContains(t, err, "cuda: ")
	require.Regexp(t, `libcuda\.so\.1|cuda is not here|no GPU 1048576|NO_DEVICE`, err.Error())
}

// A cache gives what was stored under the same source, options and versions, and
// takes what is damaged as absent.
func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there yet")
	d := &Driver{version: 13000, attrs: attributes{major: 9}}
	c := &Compiler{major: 13, minor: 1}
	k, err := openCache(dir, d, c)
	require.NoError(t, err)
	s := &Source{Entry: "k_a", Text: "text"}
	key := k.key(s)
	_, ok := k.load(key)
	require.False(t, ok)
	require.NoError(t, k.store(key, []byte("machine code")))
	got, ok := k.load(key)
	require.True(t, ok)
	require.Equal(t, "machine code", string(got))
	// Without a compiler: the code can only come from the cache.
	got, err = k.compile(nil, s)
	require.NoError(t, err)
	require.Equal(t, "machine code", string(got))

	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing is left beside it")

	others := map[string]string{"source": k.key(&Source{Entry: "k_a", Text: "text "}), "entry": k.key(&Source{Entry: "k_b", Text: "text"})}
	for what, o := range map[string][4]int32{"driver": {13010, 9, 13, 1}, "compiler": {13000, 9, 13, 2}, "architecture": {13000, 10, 13, 1}} {
		other, err := openCache(dir, &Driver{version: o[0], attrs: attributes{major: int(o[1])}}, &Compiler{major: o[2], minor: o[3]})
		require.NoError(t, err)
		others[what] = other.key(s)
	}
	seen := map[string]string{key: "itself"}
	for what, o := range others {
		require.NotContains(t, seen, o, what)
		seen[o] = what
	}

	path := filepath.Join(dir, key)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, damaged := range [][]byte{whole[:len(whole)-1], whole[:sha256.Size], nil, append([]byte{whole[0] ^ 1}, whole[1:]...)} {
		require.NoError(t, os.WriteFile(path, damaged, 0o644))
		_, ok := k.load(key)
		require.False(t, ok, "%d of %d bytes", len(damaged), len(whole))
	}

	_, err = openCache(path, d, c)
	require.ErrorContains(t, err, "cuda: cache of kernels: ")
	none, err := openCache("", d, c)
	require.NoError(t, err)
	require.NoError(t, none.store(key, []byte("x")))
	_, ok = none.load(key)
	require.False(t, ok)
}

// Vectors are aligned; what looks like one is not.
func TestVectorArguments(t *testing.T) {
	for elem, want := range map[string]bool{"float4": true, "const half2": true, "uint3": true, "float": false, "packed_float4": false, "block_q4": false} {
		a := mtl.Argument{Elem: elem, Scalar: mtl.Float32, ElemSize: 16}
		if elem == "float" {
			a.ElemSize = 4
		}
		if elem == "block_q4" {
			a.Scalar = mtl.AnyType
		}
		require.Equal(t, want, isVector(a), elem)
	}
}
