package main

import (
	"context"
	"maps"
	"slices"

	"minfer/cmd/internal/cli"
	"minfer/engine/quant"
	"minfer/harness"
	"minfer/suites/sweeps"
)

// completion is the command `mbench completion`.
func completion(ctx context.Context, s cli.Streams, args []string) (int, error) {
	return cli.Completion{
		Program:  "mbench",
		Commands: slices.Sorted(maps.Keys(commands)),
		Values: map[string][]string{
			"sweep": append(sweeps.Names(), "all"), "device": cli.Devices, "types": quant.MixNames(),
			"cache-types": {"f32", "f16", "q8_0"}, "cache-type": {"f32", "f16", "q8_0"}, "gpu": sweeps.GPUNames(),
			"format": append([]string{"table"}, harness.RecordFormats...),
		},
		Lists: []string{"sweep", "device", "types", "cache-types"},
		Run:   run,
	}.Complete(ctx, s, args)
}
