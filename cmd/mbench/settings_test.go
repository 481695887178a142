package main

import (
	"testing"

	"minfer/cmd/internal/clitest"
)

func TestNonsenseSettings(t *testing.T) {
	clitest.NonsenseSettings(t, "mbench", run, "run", "--prompt", "A", "-n", "1")
}
