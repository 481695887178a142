package peers

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/harness"
)

// The committed records are whole: their form, their provenance, their check,
// and rates that follow from their samples.
func TestResults(t *testing.T) {
	files, err := filepath.Glob("../../results/peers/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		var rec Record
		require.NoError(t, d.Decode(&rec), file)
		p := rec.Provenance
		for _, s := range []string{p.Date, p.Command, p.Host, p.Device, p.Oracle} {
			require.NotEmpty(t, s, file)
		}
		require.Regexp(t, "^[0-9a-f]{40}$", p.Commit, file)
		require.True(t, rec.Agree, file)
		require.Positive(t, rec.Check.N, file)
		require.NotEmpty(t, rec.Rows, file)
		for _, r := range rec.Rows {
			require.NotEmpty(t, r.Samples, file)
			require.InEpsilon(t, float64(r.Tokens)/harness.Median(r.Samples).Seconds(), r.Rate, 1e-9, file)
		}
	}
}
