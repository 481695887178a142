package cuda

import (
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Blocks fetch their shares of a matrix's rows ahead: all of short rows at once, the
// beginnings of long ones; a last block with fewer rows takes those before them too.
func TestAhead(t *testing.T) {
	for _, c := range []struct {
		name   string
		a      Ahead
		groups [3]uint32
		want   geometry
	}{
		{"short rows", Ahead{Bytes: 100 * 2016, Rows: 100, Each: 4096}, [3]uint32{25, 1, 1}, geometry{pieces: 1, bytes: 4 * 2016, stride: 2016, ahead: 1 << 20, step: 4 * 2016, last: 96 * 2016}},
		{"long rows", Ahead{Bytes: 100 * 10656, Rows: 100, Each: 4096}, [3]uint32{25, 1, 1}, geometry{pieces: 4, bytes: 4096, stride: 10656, ahead: 1 << 20, step: 4 * 10656, last: 96 * 10656}},
		{"a ragged end", Ahead{Bytes: 99 * 2016, Rows: 99, Each: 4096}, [3]uint32{25, 1, 1}, geometry{pieces: 1, bytes: 4 * 2016, stride: 2016, ahead: 1 << 20, step: 4 * 2016, last: 95 * 2016}},
		{"fewer rows than blocks", Ahead{Bytes: 3 * 18, Rows: 3, Each: 4096}, [3]uint32{5, 1, 1}, geometry{pieces: 1, bytes: 18, stride: 18, ahead: 1 << 20, step: 18, last: 2 * 18}},
		{"no hint", Ahead{Bytes: 1000, Each: 4096}, [3]uint32{25, 1, 1}, geometry{}},
		{"rows of nothing", Ahead{Rows: 4, Each: 4096}, [3]uint32{4, 1, 1}, geometry{}},
		{"tiles of more than rows", Ahead{Bytes: 100 * 2016, Rows: 100, Each: 4096}, [3]uint32{25, 2, 1}, geometry{}},
		{"a matrix to a block", Ahead{Bytes: 1 << 32, Rows: 1 << 12, Each: 4096}, [3]uint32{1, 1, 1}, geometry{}},
	} {
		var g geometry
		g.fetch(c.a, 1<<20, c.groups)
		require.Equal(t, c.want, g, c.name)
	}
}

// A launch's geometry has the layout of the kernels' launch_t, which get its bytes.
func TestGeometryLayout(t *testing.T) {
	text, err := os.ReadFile("device/base.cuh")
	require.NoError(t, err)
	m := regexp.MustCompile(`(?s)struct launch_t \{\n(.*?)\n\};`).FindStringSubmatch(string(text))
	require.NotNil(t, m)
	type field struct {
		name         string
		offset, size int
	}
	var want, have []field
	end := 0
	for _, line := range strings.Split(m[1], "\n") {
		line, _, _ = strings.Cut(line, "//")
		if line = strings.TrimSuffix(strings.TrimSpace(line), ";"); line == "" {
			continue
		}
		size, names := 4, strings.TrimPrefix(line, "u32 ")
		if names == line {
			size, names = 8, strings.TrimPrefix(line, "u64 ")
		}
		if at := strings.Index(line, "* "); at >= 0 {
			size, names = 8, line[at+2:]
		}
		for _, name := range strings.Split(names, ", ") {
			n := 1
			if base, count, ok := strings.Cut(name, "["); ok {
				n, err = strconv.Atoi(strings.TrimSuffix(count, "]"))
				require.NoError(t, err)
				name = base
			}
			require.Regexp(t, `^[a-z]+$`, name, "a declaration that this test cannot read: %s", line)
			end = (end + size - 1) / size * size
			want = append(want, field{name, end, n * size})
			end += n * size
		}
	}
	g := reflect.TypeFor[geometry]()
	for k := range g.NumField() {
		f := g.Field(k)
		have = append(have, field{f.Name, int(f.Offset), int(f.Type.Size())})
	}
	require.Equal(t, want, have)
	require.Equal(t, (end+7)/8*8, int(g.Size()))
}
