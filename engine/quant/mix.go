package quant

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"minfer/engine/gguf"
)

// A Mix is a recipe for the types of a whole file.
//
// A mix named like one of llama.cpp's file types chooses what llama.cpp
// chooses without an importance matrix: most matrices get Type, the output
// matrix (or the embedding that stands for it) more bits, and the _M and _S
// mixes more bits for some attn_v and ffn_down matrices. With Pure set every
// matrix gets Type. In both cases a matrix whose rows are no whole number of
// blocks falls back to a type of smaller blocks or to f16, and norms, biases and
// other small tensors stay as they are.
type Mix struct {
	Name     string
	FileType uint32    // llama.cpp's number, stored as general.file_type
	Type     gguf.Type // of most matrices
	Pure     bool      // of all of them
}

var mixes = []Mix{
	{Name: "f32", FileType: 0, Type: gguf.F32},
	{Name: "f16", FileType: 1, Type: gguf.F16},
	{Name: "bf16", FileType: 32, Type: gguf.BF16},
	{Name: "q4_0", FileType: 2, Type: gguf.Q4_0},
	{Name: "q4_1", FileType: 3, Type: gguf.Q4_1},
	{Name: "q5_0", FileType: 8, Type: gguf.Q5_0},
	{Name: "q5_1", FileType: 9, Type: gguf.Q5_1},
	{Name: "q8_0", FileType: 7, Type: gguf.Q8_0},
	{Name: "q4_K_S", FileType: 14, Type: gguf.Q4_K},
	{Name: "q4_K_M", FileType: mostlyQ4_K_M, Type: gguf.Q4_K},
	{Name: "q5_K_S", FileType: 16, Type: gguf.Q5_K},
	{Name: "q5_K_M", FileType: mostlyQ5_K_M, Type: gguf.Q5_K},
	{Name: "q6_K", FileType: 18, Type: gguf.Q6_K},
	// No file type of llama.cpp: its quantiser reads these names as the _M
	// mixes. Here a bare type name that is no mix means that type.
	{Name: "q4_K", FileType: mostlyQ4_K_M, Type: gguf.Q4_K, Pure: true},
	{Name: "q5_K", FileType: mostlyQ5_K_M, Type: gguf.Q5_K, Pure: true},
}

// File types that choose types by more than the default.
const (
	mostlyQ4_K_S = 14
	mostlyQ4_K_M = 15
	mostlyQ5_K_M = 17
)

// MixNames lists the names that ParseMix knows.
func MixNames() []string {
	names := make([]string, len(mixes))
	for i, m := range mixes {
		names[i] = m.Name
	}
	return names
}

// ParseMix finds a mix by its name in any case: llama.cpp's file types f32,
// f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_K_S, q4_K_M, q5_K_S, q5_K_M and
// q6_K, and the pure q4_K and q5_K. (llama.cpp's own tool takes Q4_K for
// Q4_K_M; here q4_K gives the bytes that it gives with --pure.)
func ParseMix(name string) (Mix, error) {
	for _, m := range mixes {
		if strings.EqualFold(m.Name, name) {
			return m, nil
		}
	}
	return Mix{}, fmt.Errorf("unknown quantisation %q: want one of %s", name, strings.Join(MixNames(), ", "))
}

// A Shape is what the choice of types depends on besides the tensors.
type Shape struct {
	Arch    string // general.architecture
	Layers  int    // block_count
	Heads   int    // attention.head_count, of the first layer
	HeadsKV int    // attention.head_count_kv, of the first layer
	Experts int    // expert_count, 0 for a dense model
}

// ShapeOf reads the shape from a file's metadata.
func ShapeOf(f *gguf.File) (Shape, error) {
	var s Shape
	arch, ok, err := gguf.Get[string](f, "general.architecture")
	if err != nil {
		return s, err
	}
	if !ok {
		return s, fmt.Errorf("%s: no key general.architecture: want the model's architecture", f.Path)
	}
	s.Arch = arch
	layers, ok, err := gguf.Get[int](f, arch+".block_count")
	if err != nil {
		return s, err
	}
	if !ok || layers < 0 {
		return s, fmt.Errorf("%s: key %s.block_count is %d: want the number of layers", f.Path, arch, layers)
	}
	s.Layers = layers
	if s.Heads, err = perLayer(f, arch+".attention.head_count", 0); err != nil {
		return s, err
	}
	if s.HeadsKV, err = perLayer(f, arch+".attention.head_count_kv", s.Heads); err != nil {
		return s, err
	}
	s.Experts, _, err = gguf.Get[int](f, arch+".expert_count")
	return s, err
}

// perLayer reads a number that some models give as an array with one value a
// layer: the first one.
func perLayer(f *gguf.File, key string, absent int) (int, error) {
	if all, ok, err := gguf.Get[[]int](f, key); ok && err == nil && len(all) > 0 {
		return all[0], nil
	}
	n, ok, err := gguf.Get[int](f, key)
	if err != nil {
		return 0, err
	}
	if !ok {
		return absent, nil
	}
	return n, nil
}

// Types gives the type of each tensor, in the order of tensors, of which the
// names, types and dimensions are read. The one error is a tensor of a model
// with experts whose name has no layer where the choice depends on it.
func (m Mix) Types(s Shape, tensors []gguf.Tensor) ([]gguf.Type, error) {
	c := chooser{mix: m, shape: s, tied: true}
	for _, t := range tensors {
		switch roleOf(t.Name) {
		case attnV:
			c.nAttnV++
		case output:
			c.tied = false
		}
	}
	types := make([]gguf.Type, len(tensors))
	for _, i := range Order(tensors) {
		t, err := c.choose(tensors[i])
		if err != nil {
			return nil, err
		}
		types[i] = t
	}
	return types, nil
}

// Order gives the indices of tensors in the order in which llama.cpp writes
// them and counts layers: those outside the layers first, then layer by layer,
// by name within each.
func Order(tensors []gguf.Tensor) []int {
	order := make([]int, len(tensors))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(layerOf(tensors[a].Name), layerOf(tensors[b].Name)),
			strings.Compare(tensors[a].Name, tensors[b].Name))
	})
	return order
}

// layerOf reads N of "blk.N.", and is -1 for other names.
func layerOf(name string) int {
	rest, ok := strings.CutPrefix(name, "blk.")
	if !ok {
		return -1
	}
	digits, _, ok := strings.Cut(rest, ".")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil {
		return -1
	}
	return n
}

// role is what a tensor's name says about its sensitivity to rounding.
type role int

const (
	other role = iota
	output
	tokenEmbd
	attnV // attn_v and what holds it: attn_qkv, attn_kv_b
	attnK
	attnOutput
	ffnDown
)

// roleOf classifies a name; the first match counts.
func roleOf(name string) role {
	switch {
	case name == "output.weight":
		return output
	case name == "token_embd.weight", name == "per_layer_token_embd.weight":
		return tokenEmbd
	case strings.Contains(name, "attn_qkv.weight"), strings.Contains(name, "attn_kv_b.weight"), strings.Contains(name, "attn_v.weight"):
		return attnV
	case strings.Contains(name, "attn_k.weight"):
		return attnK
	case strings.Contains(name, "attn_q.weight"):
		return other
	case strings.Contains(name, "attn_output.weight"):
		return attnOutput
	case strings.Contains(name, "ffn_up"), strings.Contains(name, "ffn_gate"):
		return other
	case strings.Contains(name, "ffn_down"):
		return ffnDown
	}
	return other
}

// quantisable reports whether a tensor is a weight matrix (or a stack of
// them): two dimensions at least, not counting trailing ones of length 1, a
// name that ends in "weight", and no norm or expert router.
func quantisable(t gguf.Tensor) bool {
	dims := len(t.Dims)
	for dims > 0 && t.Dims[dims-1] == 1 {
		dims--
	}
	return dims >= 2 && strings.HasSuffix(t.Name, "weight") &&
		!strings.Contains(t.Name, "_norm.weight") && !strings.Contains(t.Name, "ffn_gate_inp.weight")
}

// chooser walks the tensors of one file; some rules count what came before.
type chooser struct {
	mix            Mix
	shape          Shape
	tied           bool // no output matrix: the embedding stands for it
	nAttnV, iAttnV int
	iFFNDown       int
}

func (c *chooser) choose(t gguf.Tensor) (gguf.Type, error) {
	if !quantisable(t) {
		return t.Type, nil
	}
	want := c.mix.Type
	if want.BlockSize() == 1 {
		return want, nil // plain types fit every row and know no exceptions
	}
	if !c.mix.Pure {
		var err error
		if want, err = c.mixed(t); err != nil {
			return 0, err
		}
	}
	return fallback(t, want), nil
}

// mixed applies the rules of a file type to one matrix.
func (c *chooser) mixed(t gguf.Tensor) (gguf.Type, error) {
	want, ftype := c.mix.Type, c.mix.FileType
	switch r := roleOf(t.Name); {
	case r == output, r == tokenEmbd && c.tied:
		if t.Dims[0]%want.BlockSize() != 0 || want == gguf.Q8_0 {
			return gguf.Q8_0, nil
		}
		return gguf.Q6_K, nil
	case r == attnV:
		switch {
		case (ftype == mostlyQ4_K_M || ftype == mostlyQ5_K_M) && moreBits(c.iAttnV, c.nAttnV):
			want = gguf.Q6_K
		case ftype == mostlyQ4_K_S && c.iAttnV < 4:
			want = gguf.Q5_K
		}
		// Eight query heads share a value head: more bits cost little there.
		if c.shape.is70B() && want == gguf.Q4_K {
			want = gguf.Q5_K
		}
		if c.shape.Experts == 8 {
			want = gguf.Q8_0
		}
		c.iAttnV++
	case r == attnK && c.shape.Experts == 8:
		want = gguf.Q8_0
	case r == attnOutput && c.shape.Experts == 8 && (ftype == mostlyQ4_K_S || ftype == mostlyQ4_K_M):
		want = gguf.Q5_K
	case r == ffnDown:
		il, n := c.iFFNDown, c.shape.Layers
		c.iFFNDown++
		if c.shape.Experts > 1 {
			// One layer may have several such tensors, so counting won't do.
			if il = layerOf(t.Name); il < 0 || il >= n {
				return 0, fmt.Errorf("tensor %s: layer %d: want one of 0 to %d", t.Name, il, n-1)
			}
		}
		switch {
		case (ftype == mostlyQ4_K_M || ftype == mostlyQ5_K_M) && moreBits(il, n):
			want = gguf.Q6_K
		case ftype == mostlyQ4_K_S && il < n/8:
			want = gguf.Q5_K
		}
	}
	return want, nil
}

// moreBits picks the first and the last eighth of the layers and every third
// of those between.
func moreBits(il, n int) bool {
	return il < n/8 || il >= 7*n/8 || (il-n/8)%3 == 2
}

// is70B tells the models that llama.cpp classes as 70B by their depth.
func (s Shape) is70B() bool {
	switch s.Arch {
	case "llama":
		return s.Layers == 80 && s.Heads != s.HeadsKV
	case "qwen2":
		return s.Layers == 80
	}
	return false
}

// fallback replaces a type whose blocks don't fit the rows of t. Where nothing
// smaller fits either, the matrix becomes f16.
func fallback(t gguf.Tensor, want gguf.Type) gguf.Type {
	n := t.Dims[0]
	if n%want.BlockSize() == 0 {
		return want
	}
	if n%32 == 0 {
		switch want {
		case gguf.Q4_K:
			return gguf.Q5_0
		case gguf.Q5_K:
			return gguf.Q5_1
		case gguf.Q6_K:
			return gguf.Q8_0
		}
	}
	return gguf.F16
}
