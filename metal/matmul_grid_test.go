package metal

import (
	"io/fs"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/kernels"
)

// The kernels have room for the sums of as many simdgroups as a threadgroup is given,
// and a K type's limit of threads, which says how many registers a lane may take, is
// not below them.
func TestSingleGridFitsKernels(t *testing.T) {
	text, err := fs.ReadFile(kernels.FS, "mul_mv.metal")
	require.NoError(t, err)
	room := regexp.MustCompile(`(?m)^#define SINGLE_SIMDGROUPS (\d+)$`).FindSubmatch(text)
	require.NotNil(t, room)
	n, err := strconv.Atoi(string(room[1]))
	require.NoError(t, err)
	require.Len(t, regexp.MustCompile(`threadgroup float sums\[`).FindAll(text, -1), 1)
	require.Contains(t, string(text), "threadgroup float sums[SINGLE_SIMDGROUPS * rows];")
	limits := regexp.MustCompile(`MUL_MV_LIMIT\((\d+), `).FindAllSubmatch(text, -1)
	require.Len(t, limits, 4)
	threads := 1024
	for _, m := range limits {
		limit, err := strconv.Atoi(string(m[1]))
		require.NoError(t, err)
		threads = min(threads, limit)
	}

	most := 0
	for typ := range single {
		for _, inDim := range []int{256, 768, 4864, 18944, 1 << 20} {
			for _, outDim := range []int{1, 3, 4, 7, 8, 9, 128, 896, 18944, 151936} {
				s := SingleOf(typ, inDim, outDim)
				require.Positive(t, s.Simdgroups)
				require.Positive(t, s.Groups)
				most = max(most, s.Simdgroups)
			}
		}
	}
	require.Equal(t, n, most)
	require.GreaterOrEqual(t, threads, 32*most)
}

// Each type's rows of a threadgroup are those that its kernel takes.
func TestSingleRowsAreTheKernels(t *testing.T) {
	text, err := fs.ReadFile(kernels.FS, "mul_mv.metal")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^MUL_MV(?:_LIMIT)?\((?:\d+, )?(\w+), (\w+), \w+, (\d+), `).FindAllSubmatch(text, -1)
	rows := map[string]string{}
	for _, m := range found {
		rows["kernel_mul_mat_"+string(m[1])+"_"+string(m[2])] = string(m[3])
	}
	require.Len(t, rows, len(single)+len(few))
	for typ, s := range single {
		require.Equal(t, strconv.Itoa(s.rows), rows[mulMats[typ][tierSingle].Kernel], typ)
	}
	for typ, s := range few {
		require.Equal(t, strconv.Itoa(s.rows), rows[mulMats[typ][tierFew].Kernel], typ)
	}
}
