package peers

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The committed records are whole: their form, their provenance, and a check that holds
// by its own numbers.
func TestResults(t *testing.T) {
	files, err := filepath.Glob("../../results/peers/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		rec, err := Read(data)
		require.NoError(t, err, file)
		p := rec.Provenance
		for _, s := range []string{p.Date, p.Command, p.Host, p.Device, p.Oracle} {
			require.NotEmpty(t, s, file)
		}
		require.Regexp(t, "^[0-9a-f]{40}$", p.Commit, file)
		require.True(t, rec.Check.OK(), file)
		require.True(t, rec.Agree, file)
		require.Empty(t, rec.Wrong, file)
		if rec.Threads > 0 {
			require.False(t, rec.Check.Each, "%s: want bits", file)
			require.Zero(t, rec.Check.Tolerance, "%s: want bits", file)
			continue
		}
		require.NotEmpty(t, rec.Held, file)
		for _, h := range rec.Held {
			require.True(t, h.OK(), "%s: %s", file, &h)
		}
		var on, of int
		_, err = fmt.Sscanf(rec.Offloaded, "%d of %d", &on, &of)
		require.NoError(t, err, file)
		require.Positive(t, on, file)
		require.Equal(t, of, on, file)
	}
}
