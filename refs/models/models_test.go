//go:build !noembed

package models

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

// The hashes and the architectures are those that docs/numerics.md section 15
// states for the two models.
func TestModels(t *testing.T) {
	expected := map[string]struct{ sum, arch string }{
		"tiny-qwen2-f16": {"ff34ace75be3cb39", "qwen2"},
		"tiny-qwen3-f16": {"7b3cf51db48df40b", "qwen3"},
	}
	require.Len(t, Names(), len(expected))
	require.Equal(t, Default, Names()[0])
	for _, name := range Names() {
		data, err := Bytes(name)
		require.NoError(t, err)
		sum := sha256.Sum256(data)
		require.Equal(t, expected[name].sum, hex.EncodeToString(sum[:8]), name)

		f, err := Open(name)
		require.NoError(t, err)
		arch, ok := f.Lookup("general.architecture")
		require.True(t, ok)
		require.Equal(t, expected[name].arch, arch)
		require.NoError(t, f.Close())
	}
}

func TestUnknownName(t *testing.T) {
	_, err := Open("tiny-gpt")
	require.EqualError(t, err, `embedded model "tiny-gpt": want one of tiny-qwen2-f16, tiny-qwen3-f16`)
}
