package gguf

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// writes remembers what came, and fails from the n-th write on.
type writes struct {
	data  []byte
	sizes []int
	n     int
}

func (w *writes) Write(b []byte) (int, error) {
	if len(w.sizes) == w.n {
		return 0, errors.New("full")
	}
	w.data, w.sizes = append(w.data, b...), append(w.sizes, len(b))
	return len(b), nil
}

// However the bytes come, they leave in whole pieces, in order, and the rest at the end.
func TestPieces(t *testing.T) {
	var want []byte
	out := &writes{n: 4}
	w := &pieceWriter{w: out}
	for i, n := range []int{1, 100, pieceBytes - 101, 3, 0, 2*pieceBytes + 5, 7} {
		b := make([]byte, n)
		for j := range b {
			b[j] = byte(i + j*7)
		}
		k, err := w.Write(b)
		require.NoError(t, err)
		require.Equal(t, n, k)
		want = append(want, b...)
	}
	require.NoError(t, w.Flush())
	require.Equal(t, []int{pieceBytes, pieceBytes, pieceBytes, 15}, out.sizes)
	require.True(t, string(want) == string(out.data))
}

// Once a piece could not be written nothing follows it, so that whoever goes on
// writing can't end with a hole and no error.
func TestPiecesKeepAnError(t *testing.T) {
	out := &writes{n: 1}
	w := &pieceWriter{w: out}
	k, err := w.Write(make([]byte, 2*pieceBytes+1))
	require.EqualError(t, err, "full")
	require.Equal(t, 2*pieceBytes, k)
	out.n = 100 // there would be room again
	k, err = w.Write([]byte{1})
	require.EqualError(t, err, "full")
	require.Zero(t, k)
	require.EqualError(t, w.Flush(), "full")
	require.Equal(t, []int{pieceBytes}, out.sizes)

	w = &pieceWriter{w: &writes{}}
	_, err = w.Write([]byte{1})
	require.NoError(t, err)
	require.EqualError(t, w.Flush(), "full")
	require.EqualError(t, w.Flush(), "full")
}
