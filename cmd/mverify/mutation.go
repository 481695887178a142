package main

import (
	"minfer/suites"
	"minfer/suites/attention"
	"minfer/suites/fusion"
	"minfer/suites/kv"
	"minfer/suites/matmul"
	"minfer/suites/mutation"
	"minfer/suites/ops"
)

// moreSuites are those that `--suite all` leaves out: mutation verifies the others.
var moreSuites = []suites.Suite{
	mutation.Suite{Suites: []suites.Suite{ops.Suite{}, matmul.Suite{}, attention.Suite{}, kv.Suite{}, fusion.Suite{}}},
}
