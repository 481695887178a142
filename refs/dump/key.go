package dump

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
)

// A Key names one node value of a run.
//
// Name is the name that llama.cpp's eval callback reports (docs/numerics.md
// section 12) and Op ggml's name of the operation, with these differences,
// which make the key independent of the graph's size and of the cache:
//
//   - "cache_k_l0 (view)" and "cache_v_l0 (reshaped) (view)" are "cache_k_l0"
//     and "cache_v_l0", op SET_ROWS; the value is the row (V: the column) that
//     this position stored, in channel order, not the whole cache;
//   - the attention output's matrix product, which has no name of its own, is
//     "attn_out-<il>", op MUL_MAT;
//   - the last layer's two selections of output rows are "attn_out-<il>" and
//     "layer_in-<il>", op GET_ROWS;
//   - SWIGLU is the op of "ffn_swiglu-<il>" (ggml calls it GLU);
//   - "kq-<il>" and "kq_soft_max-<il>" keep the cells 0..Pos only, not the
//     padding to a multiple of 256.
type Key struct {
	Pos  int    // token position, from 0
	Name string // "Qcur-0", "result_output"
	Op   string // "MUL_MAT"
	Occ  int    // occurrence of (Name, Op) at this position, from 0: norm-0 RMS_NORM occurs 2 or 4 times
}

// String gives the key as "pos 3 norm-0 RMS_NORM #1"; "#0" is left out.
func (k Key) String() string {
	s := fmt.Sprintf("pos %d %s %s", k.Pos, k.Name, k.Op)
	if k.Occ != 0 {
		s += " #" + strconv.Itoa(k.Occ)
	}
	return s
}

// Layer is the layer that the name carries ("norm-3", "cache_k_l3"), or -1.
func (k Key) Layer() int {
	s := k.Name
	if i := strings.LastIndexByte(s, '-'); i >= 0 {
		s = s[i+1:]
	} else if rest, ok := strings.CutPrefix(s, "cache_k_l"); ok {
		s = rest
	} else if rest, ok := strings.CutPrefix(s, "cache_v_l"); ok {
		s = rest
	} else {
		return -1
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// A Value is one node value: Data has the product of Dims elements, innermost
// dimension first, contiguous; dimensions of 1 after the first are left out.
// Elements stored as f16 are widened exactly.
type Value struct {
	Key  Key
	Dims []int
	Data []float32
}

// Hash is the 64-bit FNV-1a hash of the values' little-endian float32 bytes,
// the hash of docs/numerics.md section 15.
func Hash(data []float32) uint64 {
	h := fnv.New64a()
	var buf [4096]byte
	for len(data) > 0 {
		n := min(len(data), len(buf)/4)
		for i, v := range data[:n] {
			binary.LittleEndian.PutUint32(buf[4*i:], math.Float32bits(v))
		}
		h.Write(buf[:4*n])
		data = data[n:]
	}
	return h.Sum64()
}
