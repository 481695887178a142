package metaltest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/metaltest"
)

// docs/kernel-tests.md shows the code of example_test.go and what Check says.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/kernel-tests.md")
	require.NoError(t, err)
	code, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```(go)?\n(.*?)```").FindAllSubmatch(page, -1)
	require.Len(t, blocks, 3)
	said := metaltest.Check(softmaxLaunch("../../docs/examples/softmax.metal")).Error()
	for _, b := range blocks {
		if string(b[1]) == "go" {
			require.Contains(t, string(code), string(b[2]))
		} else {
			require.True(t, strings.HasPrefix(said, string(b[2])), "said:\n%s", said)
		}
	}
}
