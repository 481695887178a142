//go:build !linux

package kernel

import "testing"

// fenced returns n bytes; there is no fence behind them here.
func fenced(_ testing.TB, n int) []byte { return make([]byte, n) }
