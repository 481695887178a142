package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTempDir(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	t.Setenv("TMPDIR", filepath.Join(here, "none"))
	dir, err := TempDir("prog")
	require.NoError(t, err)
	require.DirExists(t, filepath.Join(here, dir))
	t.Setenv("TMPDIR", here)
	dir, err = TempDir("prog")
	require.NoError(t, err)
	require.Equal(t, here, filepath.Dir(dir))
	gone := filepath.Join(here, "gone")
	require.NoError(t, os.Mkdir(gone, 0o700))
	t.Chdir(gone)
	require.NoError(t, os.Remove(gone))
	t.Setenv("TMPDIR", filepath.Join(here, "none"))
	_, err = TempDir("prog")
	require.ErrorContains(t, err, filepath.Join(here, "none"), "where it was wanted")
}
