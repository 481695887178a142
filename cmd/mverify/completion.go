package main

import (
	"context"
	"slices"

	"minfer/cmd/internal/cli"
	"minfer/harness"
)

// completion is the command `mverify completion`.
func completion(ctx context.Context, s cli.Streams, args []string) (int, error) {
	names := []string{"all"}
	for _, suite := range slices.Concat(allSuites, moreSuites) {
		names = append(names, suite.Name())
	}
	return cli.Completion{
		Program:  "mverify",
		Commands: []string{"case", "compile", "completion", "init", "merge", "record"},
		Values: map[string][]string{
			"suite": names, "device": cli.Devices, "tier": {"quick", "full", "exhaustive"},
			"format": harness.Formats, "mode": {"off", "mem", "race", "strict", "chaos"},
		},
		Lists: []string{"suite", "device"},
		Run:   run,
	}.Complete(ctx, s, args)
}
