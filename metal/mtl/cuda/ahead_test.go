package cuda

import (
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
