//go:build noembed

package models

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoModels(t *testing.T) {
	require.Empty(t, Names())
	_, err := Open(Default)
	require.EqualError(t, err,
		`embedded model "tiny-qwen2-f16": this program was built with the tag noembed and holds no models: give a model file`)
}
