package source

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A thousand messages about one line of megabytes: what is far from the place is
// neither shown nor looked at.
func TestLongLine(t *testing.T) {
	line := strings.Repeat("é", 1<<20) + "!" + strings.Repeat("é", 1<<20)
	start := time.Now()
	for range 1000 {
		text, mark := snippet(line, 2<<20, 2<<20+1)
		require.Equal(t, "  ..."+strings.Repeat("é", 40)+"!"+strings.Repeat("é", 79)+"...", text)
		require.Equal(t, strings.Repeat(" ", 45)+"^", mark)
	}
	require.Less(t, time.Since(start), 5*time.Second)
	text, mark := snippet(line[:1<<20], 1<<20, 1<<20)
	require.Equal(t, "  ..."+strings.Repeat("é", 120), text)
	require.Equal(t, strings.Repeat(" ", 125)+"^", mark)
}
