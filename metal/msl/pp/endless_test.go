package pp_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/pp"
)

// endless is a file system whose only file tells no length and has no end, as a device has.
type endless struct{ fs.File }

func (e endless) Open(string) (fs.File, error) {
	f, err := fstest.MapFS{"f": {}}.Open("f")
	return endless{f}, err
}

func (endless) Read(b []byte) (int, error) {
	for k := range b {
		b[k] = '\n'
	}
	return len(b), nil
}

func TestEndlessFile(t *testing.T) {
	_, m, ds := pp.Process(endless{}, "f", pp.Options{})
	require.Equal(t, "error: cannot read f: it has more than the 67108864 bytes that are read\n", m.RenderAll(ds))
}
