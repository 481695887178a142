package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/session"
	"minfer/engine/synth"
)

// After Truncate a session goes on as if it had never been further.
func TestTruncate(t *testing.T) {
	m, _ := tiny(t, synth.Options{Arch: "qwen2"})
	s := open(t, m, session.Options{NCtx: 32})
	_, err := s.Eval([]int32{5, 6, 7})
	require.NoError(t, err)
	want, err := s.Eval([]int32{8})
	require.NoError(t, err)
	_, err = s.Eval([]int32{9, 10, 11})
	require.NoError(t, err)
	require.NoError(t, s.Truncate(3))
	require.Equal(t, 3, s.Pos())
	got, err := s.Eval([]int32{8})
	require.NoError(t, err)
	require.Equal(t, want, got)

	require.EqualError(t, s.Truncate(5), "session: truncate to position 5: want 0 to 4")
	require.EqualError(t, s.Truncate(-1), "session: truncate to position -1: want 0 to 4")
	require.NoError(t, s.Truncate(4))
	s.Close()
	require.ErrorIs(t, s.Truncate(0), session.ErrClosed)
}
