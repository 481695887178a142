package dump

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const sha = "ff34ace75be3cb3908370019d7bab663f0a964c5f723741329804b4b32e43326"

// sample makes a run of positions tokens with a node of each kind, the values of
// the first keep positions kept.
func sample(t testing.TB, positions, keep int) *Run {
	t.Helper()
	h := Header{Model: "m", ModelSHA256: sha, Weights: "q4_0", KV: "f16", Level: "avx2", Llama: "v0.4.0", Glibc: "2.36", Variant: "haswell", Command: "record"}
	for i := range positions {
		h.Prompt = append(h.Prompt, int32(10+i))
	}
	b := NewBuilder(h, keep)
	for p := range positions {
		for _, v := range values(p) {
			require.NoError(t, b.Add(v))
		}
	}
	r, err := b.Finish([]int32{7}) // a last token, not evaluated
	require.NoError(t, err)
	return r
}

func values(p int) []Value {
	fill := func(seed, n int) (x []float32) {
		for i := range n {
			x = append(x, float32(seed*31+p*7+i)/8-3)
		}
		return x
	}
	v := func(name, op string, occ, seed int, dims ...int) Value {
		n := 1
		for _, d := range dims {
			n *= d
		}
		return Value{Key{p, name, op, occ}, dims, fill(seed, n)}
	}
	return []Value{
		v("embd", "GET_ROWS", 0, 1, 5),
		v("norm-0", "RMS_NORM", 0, 2, 5),
		v("kq-0", "MUL_MAT", 0, 3, p+1, 2),
		v("norm-0", "RMS_NORM", 1, 4, 5),
		v("scalar", "ADD", 0, 5, 1),
	}
}

func TestHash(t *testing.T) {
	// docs/numerics.md section 15: x_i = f32((i*7919 mod 2001) - 1000)/1000; the
	// first values' bits are given there, the hash of an empty value is FNV's offset.
	require.Equal(t, uint64(0xcbf29ce484222325), Hash(nil))
	// One byte string hashed by hash/fnv directly, longer than the internal buffer.
	x := make([]float32, 5000)
	want := fnv.New64a()
	for i := range x {
		x[i] = float32((i*7919)%2001-1000) / 1000
		require.NoError(t, binary.Write(want, binary.LittleEndian, x[i]))
	}
	require.Equal(t, want.Sum64(), Hash(x))
	require.NotEqual(t, Hash([]float32{0}), Hash([]float32{float32(math.Copysign(0, -1))}))
}

func TestKey(t *testing.T) {
	require.Equal(t, "pos 3 norm-0 RMS_NORM #1", Key{3, "norm-0", "RMS_NORM", 1}.String())
	require.Equal(t, "pos 0 embd GET_ROWS", Key{0, "embd", "GET_ROWS", 0}.String())
	for name, layer := range map[string]int{"Qcur-12": 12, "cache_k_l3": 3, "cache_v_l0": 0, "kq_soft_max-7": 7, "result_output": -1, "norm": -1, "a-b": -1} {
		require.Equal(t, layer, Key{Name: name}.Layer(), name)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, tc := range []struct{ positions, keep int }{{1, 0}, {1, 1}, {2, 1}, {7, 0}, {7, 3}, {7, 100}} {
		r := sample(t, tc.positions, tc.keep)
		file, err := r.Encode()
		require.NoError(t, err)
		again, err := sample(t, tc.positions, tc.keep).Encode()
		require.NoError(t, err)
		require.True(t, bytes.Equal(file, again), "equal runs, equal bytes")
		back, err := Decode(file)
		require.NoError(t, err)
		require.True(t, Equal(r, back))
		require.Equal(t, min(tc.keep, tc.positions), back.ValuePositions())
		require.Equal(t, tc.positions, back.Positions())
		for p := range tc.positions {
			for i, v := range values(p) {
				require.Equal(t, v.Key, back.Key(p, i))
				require.NoError(t, back.Check(v.Key, v.Data))
				if p < tc.keep {
					require.Equal(t, v.Data, back.Values(p, i))
				} else {
					require.Nil(t, back.Values(p, i))
				}
			}
		}
	}
	r := sample(t, 3, 0)
	require.Equal(t, []int{CellDim, 2}, r.Nodes[2].Dims, "kq grows with the position")
	require.Equal(t, []int{1}, r.Nodes[4].Dims, "a constant 1 does not")
	require.Equal(t, int32(12), r.Header.Token(2))
	require.False(t, Equal(r, sample(t, 2, 0)))
	require.False(t, Equal(r, sample(t, 3, 1)))
}

// A fault of one ulp, a missing cell and a wrong key are each told apart.
func TestCheckFaults(t *testing.T) {
	r := sample(t, 4, 2)
	v := values(1)[3]
	v.Data[2] = math.Nextafter32(v.Data[2], 100)
	err := r.Check(v.Key, v.Data)
	var m *MismatchError
	require.ErrorAs(t, err, &m)
	require.Equal(t, 2, m.Index)
	require.EqualError(t, err, "pos 1 norm-0 RMS_NORM #1: element 2 is 13.625001 (415a0001), llama.cpp has 13.625 (415a0000)")

	live := values(1)[3]
	require.NoError(t, live.Check(values(1)[3].Data))
	require.Equal(t, err.Error(), live.Check(v.Data).Error())
	require.EqualError(t, live.Check(nil), "pos 1 norm-0 RMS_NORM #1: 0 elements, want 5")

	v = values(3)[1] // beyond the kept positions: hash only
	v.Data[0] = -v.Data[0]
	err = r.Check(v.Key, v.Data)
	require.ErrorAs(t, err, &m)
	require.Equal(t, -1, m.Index)
	require.Contains(t, err.Error(), "pos 3 norm-0 RMS_NORM: hash ")

	require.EqualError(t, r.Check(Key{3, "kq-0", "MUL_MAT", 0}, make([]float32, 6)), "pos 3 kq-0 MUL_MAT: 6 elements, recorded 8")
	require.EqualError(t, r.Check(Key{4, "embd", "GET_ROWS", 0}, nil), "pos 4 embd GET_ROWS: the recorded run has positions 0 to 3")
	require.EqualError(t, r.Check(Key{0, "embd", "MUL", 0}, nil), "pos 0 embd MUL: no such node in the recorded run")
}

func TestBuilderRefuses(t *testing.T) {
	h := Header{Prompt: []int32{1, 2}}
	two := func() *Builder {
		b := NewBuilder(h, 0)
		for _, v := range values(0) {
			require.NoError(t, b.Add(v))
		}
		return b
	}
	first := values(1)[0]
	require.NoError(t, two().Add(first))

	skip := first
	skip.Key.Pos = 2
	require.EqualError(t, two().Add(skip), "pos 2 embd GET_ROWS: out of order, want position 0")
	other := first
	other.Key.Op = "MUL"
	require.EqualError(t, two().Add(other), "pos 1 embd MUL: want pos 1 embd GET_ROWS as at position 0")
	longer := first
	longer.Dims, longer.Data = []int{6}, make([]float32, 6)
	require.EqualError(t, two().Add(longer), "pos 1 embd GET_ROWS: dims [6] with 6 elements, want [5]")
	require.EqualError(t, two().Add(values(0)[0]), "pos 0 embd GET_ROWS: seen twice at position 0")
	short := two()
	require.NoError(t, short.Add(first))
	next := first
	next.Key.Pos = 2
	require.EqualError(t, short.Add(next), "position 1: 1 nodes, want 5")
	_, err := two().Finish(nil)
	require.EqualError(t, err, "1 positions added, but 2 prompt and 0 generated tokens make 2")
	_, err = NewBuilder(h, 0).Finish(nil)
	require.EqualError(t, err, "position 0: 0 nodes, want 0")
}

// reseal rebuilds a file around a changed header or body, with right lengths
// and sums, so that the checks behind them are reached.
func reseal(t *testing.T, r *Run, change func(body []byte) []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	file, err := r.Encode()
	require.NoError(t, err)
	n := binary.LittleEndian.Uint32(file[len(magic):])
	out.Write(file[:len(magic)+4+int(n)])
	body := change(r.body())
	out.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(body))))
	out.Write(binary.LittleEndian.AppendUint64(nil, sum(body)))
	require.NoError(t, deflate(&out, body))
	return out.Bytes()
}

func TestDecodeRefuses(t *testing.T) {
	r := sample(t, 3, 1)
	file, err := r.Encode()
	require.NoError(t, err)
	head := len(magic) + 4 + int(binary.LittleEndian.Uint32(file[len(magic):]))
	with := func(at int, b ...byte) []byte {
		c := bytes.Clone(file)
		copy(c[at:], b)
		return c
	}
	tests := []struct {
		name string
		file []byte
		want string // part of the one line
	}{
		{"empty", nil, `starts with "", want "MINFDMP1"`},
		{"other magic", with(0, 'X'), `starts with "XINFDMP1"`},
		{"no header", file[:len(magic)], "cut off before the header"},
		{"hostile header length", with(len(magic), 255, 255, 255, 255), "header of 4294967295 bytes"},
		{"header cut", file[:head-1], "header of "},
		{"header not JSON", with(len(magic)+4, 'x'), "header: invalid character"},
		{"unknown field", bytes.Replace(file, []byte(`"model"`), []byte(`"modal"`), 1), `unknown field "modal"`},
		{"bad hash", bytes.Replace(file, []byte(sha), []byte(strings.Repeat("z", 64)), 1), "want 64 hex digits"},
		{"negative token", bytes.Replace(file, []byte("[10,"), []byte("[-1,"), 1), "token 0 is -1"},
		{"no body", file[:head], "cut off before the body"},
		{"hostile body length", with(head, 255, 255, 255, 255, 255, 255, 255, 255), "can't come from"},
		{"body longer than said", with(head, byte(len(r.body())-1)), "want "},
		{"body sum", with(head+8, 0, 0, 0), "body hash"},
		{"deflate cut", file[:len(file)-3], "body: after"},
		{"trailing bytes", append(bytes.Clone(file), 0), "1 bytes after the body"},
		{"no nodes", reseal(t, r, func([]byte) []byte { return []byte{0, 0, 0} }), "no nodes"},
		{"too many nodes", reseal(t, r, func([]byte) []byte { return []byte{255, 255, 255, 255, 15} }), "the number of nodes 4294967295, want at most 65536"},
		{"empty body", reseal(t, r, func([]byte) []byte { return nil }), "cut off in the number of nodes"},
		{"name too long", reseal(t, r, func(b []byte) []byte { b[1] = 120; return b[:100] }), "node name of 120 bytes, but"},
		{"no dims", reseal(t, r, func(b []byte) []byte { b[16] = 0; return b }), "node 0 has no dims"},
		{"hashes cut", reseal(t, r, func(b []byte) []byte { return b[:len(b)-1] }), "bytes of hashes and values, want"},
		{"values other than their hash", reseal(t, r, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }), "the values of pos 0 scalar ADD have hash"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Decode(tc.file)
			require.ErrorContains(t, err, tc.want)
			require.True(t, strings.HasPrefix(err.Error(), "recorded run: "))
			require.NotContains(t, err.Error(), "\n")
		})
	}
	// Cut at every byte: always an error.
	for n := range file {
		_, err := Decode(file[:n])
		require.Error(t, err, "cut to %d bytes", n)
	}
}

func FuzzRead(f *testing.F) {
	for _, p := range []int{1, 3} {
		file, err := sample(f, p, 1).Encode()
		require.NoError(f, err)
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := Decode(file)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		// What is read can be written and read again as the same run.
		out, err := r.Encode()
		require.NoError(t, err)
		back, err := Decode(out)
		require.NoError(t, err)
		require.True(t, Equal(r, back))
	})
}

// The body's own decoder, without the sum that keeps a fuzzer out.
func FuzzReadBody(f *testing.F) {
	f.Add(sample(f, 3, 1).body())
	f.Add([]byte{1, 1, 'a', 1, 'b', 0, 1, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		r := &Run{Header: Header{Prompt: []int32{1, 2, 3}}}
		if err := r.decodeBody(body); err == nil {
			require.Equal(t, 3, r.Positions())
		} else {
			require.NotContains(t, err.Error(), "\n")
		}
	})
}
