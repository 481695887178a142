package safety_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"minfer/suites/safety"
)

// endless has a case whose source is a device: it tells no length and has no end.
type endless struct{ fstest.MapFS }

type zeros struct{ fs.File }

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func (e endless) Open(name string) (fs.File, error) {
	f, err := e.MapFS.Open(name)
	if name == "zero" {
		return zeros{f}, err
	}
	return f, err
}

func TestEndlessSource(t *testing.T) {
	e := endless{fstest.MapFS{"zero": {}, "c.json": {Data: []byte(`{"source": "zero", "buffers": {"x": {"type": "int32", "count": 1, "init": "zeros"}},
		"dispatches": [{"kernel": "k", "threadgroups": [1, 1, 1], "threads_per_threadgroup": [1, 1, 1], "args": [{"buffer": "x"}]}]}`)}}}
	_, err := safety.Load(e, "c.json", "c.json")
	require.EqualError(t, err, "c.json: source: found more than 67108864 bytes")
	_, err = safety.Load(e, "zero", "zero")
	require.EqualError(t, err, "zero: found more than 67108864 bytes")
}
