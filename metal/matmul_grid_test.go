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
	limit := regexp.MustCompile(`max_total_threads_per_threadgroup\((\d+)\)`).FindSubmatch(text)
	require.NotNil(t, limit)
	threads, err := strconv.Atoi(string(limit[1]))
	require.NoError(t, err)

	most := 0
	for typ := range single {
		for _, inDim := range []int{256, 896, 4864, 18944, 1 << 20} {
			for _, outDim := range []int{1, 3, 4, 7, 8, 9, 128, 896, 18944, 151936} {
				groups, simdgroups := SingleGrid(typ, inDim, outDim)
				require.Positive(t, simdgroups)
				require.Positive(t, groups)
				most = max(most, simdgroups)
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
	found := regexp.MustCompile(`(?m)^MUL_MV(?:_K)?\((\w+), \w+, (\d+), `).FindAllSubmatch(text, -1)
	rows := map[string]string{}
	for _, m := range found {
		rows["kernel_mul_mat_"+string(m[1])+"_single"] = string(m[2])
	}
	require.Len(t, rows, len(single))
	for typ, s := range single {
		require.Equal(t, strconv.Itoa(s.rows), rows[mulMats[typ][tierSingle].Kernel], typ)
	}
}
