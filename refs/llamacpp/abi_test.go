package llamacpp

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
)

// The layouts of docs/numerics.md section 13.
func TestLayouts(t *testing.T) {
	require.EqualValues(t, 80, unsafe.Sizeof(modelParams{}))
	require.EqualValues(t, 74, unsafe.Offsetof(modelParams{}.useExtraBufts))
	require.EqualValues(t, 160, unsafe.Sizeof(contextParams{}))
	require.EqualValues(t, 28, unsafe.Offsetof(contextParams{}.nThreads))
	require.EqualValues(t, 52, unsafe.Offsetof(contextParams{}.flashAttnType))
	require.EqualValues(t, 56, unsafe.Offsetof(contextParams{}.ropeFreqBase))
	require.EqualValues(t, 88, unsafe.Offsetof(contextParams{}.cbEval))
	require.EqualValues(t, 96, unsafe.Offsetof(contextParams{}.cbEvalUserData))
	require.EqualValues(t, 104, unsafe.Offsetof(contextParams{}.typeK))
	require.EqualValues(t, 108, unsafe.Offsetof(contextParams{}.typeV))
	require.EqualValues(t, 56, unsafe.Sizeof(batch{}))
	require.EqualValues(t, 48, unsafe.Offsetof(batch{}.logits))
	require.EqualValues(t, 24, unsafe.Sizeof(initParams{}))
	require.EqualValues(t, 336, unsafe.Sizeof(tensor{}))
	require.EqualValues(t, 16, unsafe.Offsetof(tensor{}.ne))
	require.EqualValues(t, 48, unsafe.Offsetof(tensor{}.nb))
	require.EqualValues(t, 80, unsafe.Offsetof(tensor{}.op))
	require.EqualValues(t, 84, unsafe.Offsetof(tensor{}.opParams))
	require.EqualValues(t, 152, unsafe.Offsetof(tensor{}.src))
	require.EqualValues(t, 232, unsafe.Offsetof(tensor{}.viewSrc))
	require.EqualValues(t, 248, unsafe.Offsetof(tensor{}.data))
	require.EqualValues(t, 256, unsafe.Offsetof(tensor{}.name))
	require.EqualValues(t, 40, unsafe.Offsetof(typeTraits{}.toFloat))
	require.EqualValues(t, 48, unsafe.Offsetof(typeTraits{}.fromFloatRef))
	require.EqualValues(t, 16, unsafe.Offsetof(typeTraitsCPU{}.vecDotType))
	require.EqualValues(t, 19, unsafe.Offsetof(quantizeParams{}.pure))
}

func TestHalfToFloat(t *testing.T) {
	for h := range 1 << 16 {
		// The definition: sign, 5 bits of exponent, 10 of fraction.
		exp, frac := h>>10&31, float64(h&1023)
		var want float64
		switch exp {
		case 0:
			want = math.Ldexp(frac, -24)
		case 31:
			want = math.Inf(1)
			if frac != 0 {
				want = math.NaN()
			}
		default:
			want = math.Ldexp(1024+frac, exp-25)
		}
		if h>>15 == 1 {
			want = -want
		}
		got := float64(halfToFloat(uint16(h)))
		if math.IsNaN(want) {
			require.True(t, math.IsNaN(got), "%04x", h)
			continue
		}
		require.Equal(t, math.Float64bits(want), math.Float64bits(got), "%04x", h)
	}
}

// A strided tensor is copied in the order of its elements.
func TestTensorBytes(t *testing.T) {
	mem := make([]byte, 4*24)
	for i := range 24 {
		binary.LittleEndian.PutUint32(mem[4*i:], math.Float32bits(float32(i)))
	}
	x := &tensor{typ: int32(gguf.F32), ne: [4]int64{3, 2, 1, 1}, nb: [4]uint64{4, 12, 24, 24}, data: unsafe.Pointer(&mem[0])}
	copy(x.name[:], "Qcur-0")
	data, err := x.bytes()
	require.NoError(t, err)
	require.Equal(t, []float32{0, 1, 2, 3, 4, 5}, float32s(gguf.F32, data))
	require.Equal(t, "Qcur-0", x.cname())

	x.nb = [4]uint64{8, 4, 24, 24} // transposed: inner step 2, outer step 1
	data, err = x.bytes()
	require.NoError(t, err)
	require.Equal(t, []float32{0, 2, 4, 1, 3, 5}, float32s(gguf.F32, data))

	x.ne, x.nb = [4]int64{2, 1, 3, 1}, [4]uint64{4, 0, 16, 0} // gaps between planes
	v, dims, err := x.values(1)
	require.NoError(t, err)
	require.Equal(t, []int{1, 3}, dims)
	require.Equal(t, []float32{0, 4, 8}, v)
	_, _, err = x.values(3)
	require.EqualError(t, err, "3 cells of a row of 2")

	x.typ = 99
	_, err = x.bytes()
	require.ErrorContains(t, err, "node Qcur-0 has type type(99)")
}

// The K row, and the V column of the transposed cache, that a node stored.
func TestStoredRows(t *testing.T) {
	ids := make([]byte, 8*3)
	for i, id := range []uint64{1, 5, 9} { // position 1 of 4 cells, 3 channels
		binary.LittleEndian.PutUint64(ids[8*i:], id)
	}
	cache := make([]byte, 2*12)
	for i := range 12 {
		binary.LittleEndian.PutUint16(cache[2*i:], 0x3c00+uint16(i)) // 1 + i/1024
	}
	idx := &tensor{typ: int32(i64), ne: [4]int64{3, 1, 1, 1}, nb: [4]uint64{8, 24, 24, 24}, data: unsafe.Pointer(&ids[0])}
	v := &tensor{typ: int32(gguf.F16), ne: [4]int64{1, 12, 1, 1}, nb: [4]uint64{2, 2, 24, 24}, data: unsafe.Pointer(&cache[0])}
	v.src[1] = idx
	got, err := storedRows(v)
	require.NoError(t, err)
	require.Equal(t, []float32{1 + 1./1024, 1 + 5./1024, 1 + 9./1024}, got)

	k := &tensor{typ: int32(gguf.F16), ne: [4]int64{3, 4, 1, 1}, nb: [4]uint64{2, 6, 24, 24}, data: unsafe.Pointer(&cache[0])}
	k.src[1] = &tensor{typ: int32(i64), ne: [4]int64{1, 1, 1, 1}, nb: [4]uint64{8, 8, 8, 8}, data: unsafe.Pointer(&ids[0])}
	got, err = storedRows(k)
	require.NoError(t, err)
	require.Equal(t, []float32{1 + 3./1024, 1 + 4./1024, 1 + 5./1024}, got)

	k.src[1] = idx
	_, err = storedRows(k)
	require.EqualError(t, err, "row 5 of 4")
	k.src[1] = nil
	_, err = storedRows(k)
	require.EqualError(t, err, "no row indices of type i64 or i32")
}

func TestCanonicalNames(t *testing.T) {
	c := &collector{}
	c.begin(5)
	for _, tc := range [][3]string{
		{"Qcur-3", "ROPE", "Qcur-3"},
		{"cache_k_l3 (view)", "SET_ROWS", "cache_k_l3"},
		{"cache_v_l3 (reshaped) (view)", "SET_ROWS", "cache_v_l3"},
		{"kqv_out-3", "CONT", "kqv_out-3"},
		{"node_31", "MUL_MAT", "attn_out-3"},
		{"node_32", "GET_ROWS", "attn_out-3"},
		{"node_33", "GET_ROWS", "layer_in-3"},
	} {
		got, err := c.name(tc[0], tc[1])
		require.NoError(t, err)
		require.Equal(t, tc[2], got)
	}
	for _, op := range []string{"GET_ROWS", "ADD"} {
		_, err := c.name("node_40", op)
		require.EqualError(t, err, "position 5: node node_40, op "+op+": no canonical key for it")
	}
	c.begin(6)
	_, err := c.name("node_2", "MUL_MAT")
	require.Error(t, err, "an unnamed node before any kqv_out")
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" || supported() != nil {
		_, err := Open(dir, "haswell")
		require.EqualError(t, err, "the llama.cpp oracle needs linux/amd64 and a build without the tag static; this is "+runtime.GOOS+"/"+runtime.GOARCH)
		return
	}
	file := func(name string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("not a library"), 0o644))
	}
	fails := func(dir, variant, want string) {
		t.Helper()
		_, err := Open(dir, variant)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
		require.True(t, strings.HasPrefix(err.Error(), "llama.cpp: "), err)
	}
	fails(filepath.Join(dir, "absent"), "haswell", "library directory: stat ")
	fails(dir, "has/well", `CPU variant "has/well": want a name such as haswell`)
	fails(dir, "", `CPU variant "": want`)
	fails(dir, "haswell", "no libggml-base.so and 0 files libggml-base.v*.so or libggml-base.*.v*.so in "+dir+": want one")
	file("libggml-base.so")
	file("libggml.v1.so")
	file("libggml.v2.so")
	fails(dir, "haswell", "no libggml.so and 2 files libggml.v*.so")
	require.NoError(t, os.Remove(filepath.Join(dir, "libggml.v2.so")))
	file("libllama.v1.so")
	file("libggml-cpu-zen4.so")
	fails(dir, "haswell", "no libggml-cpu-haswell.so in "+dir+": it has the CPU variants [zen4]")
	fails(filepath.Join(dir, "libggml-base.so"), "zen4", "is not a directory: want the one with libllama*.so")
	fails(dir, "zen4", "can't open "+filepath.Join(dir, "libggml-base.so"))
}

// A backend's devices count where they are GPUs.
func TestGPUsOf(t *testing.T) {
	devices := []struct {
		typ  int32
		name string
	}{{0, "a CPU"}, {1, "a GPU"}, {2, "a GPU in the CPU"}, {3, "BLAS"}}
	at := func(i int) (int32, string) { return devices[i].typ, devices[i].name }
	require.Equal(t, []string{"a GPU", "a GPU in the CPU"}, gpusOf(len(devices), at))
	require.Empty(t, gpusOf(1, at))
	require.Empty(t, gpusOf(0, at))
}

// The log says how many layers are on a GPU, until it is cleared for the next model.
func TestOffloadedLine(t *testing.T) {
	var log logText
	say := func(level int32, text string) {
		log.add(level, unsafe.Pointer(unsafe.StringData(text+"\x00")), 0)
	}
	say(2, "load_tensors: offloading 24 repeating layers to GPU\n")
	require.Zero(t, log.layers)
	say(2, "load_tensors: offloaded 24/25 layers to GPU\n")
	require.Equal(t, []int{24, 25}, []int{log.offloaded, log.layers})
	require.Empty(t, log.lines)
	log.clear()
	require.Zero(t, log.offloaded+log.layers)
}
