package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"minfer/cmd/internal/cli"
)

const usage = `
mbench runs the engine and measures it.

usage: mbench --sweep NAME[,NAME] [flags]                measure kernels and models, the flags are below
       mbench run [--model FILE] --prompt TEXT [-n N]    generate text
       mbench peers --llama DIR [--model FILE]           llama.cpp beside this engine
       mbench synth --arch A --size S --type T -o FILE   a model file of real shape and random weights
       mbench quantize IN OUT TYPE                       the weights of IN in another type
       mbench compare OLD.json NEW.json                  two recorded runs, with confidence intervals
       mbench merge FILE...                              the records of a sweep's shards in one
       mbench report FILE... -o report.html              one page of recorded runs, with plots
       mbench results                                    results/METAL_OPTIMIZATIONS.md from its records
       mbench completion bash|zsh                        a script that completes command lines

Each command explains its flags with --help.
exit codes: 0 done, 1 something did not hold, 2 bad usage or input, 3 nothing ran.
`

// needed is what is wrong where nothing is asked for.
const needed = "a command is needed: run, peers, synth, quantize, compare, merge, report or results, or --sweep NAME (see --help)"

// command is one subcommand.
type command func(ctx context.Context, s cli.Streams, args []string) (int, error)

var commands = map[string]command{
	"run":      generate,
	"peers":    peersCommand,
	"synth":    synthesize,
	"quantize": quantize,
	"compare":  compareCommand,
	"merge":    mergeCommand,
	"report":   reportCommand,
	"results":  resultsCommand,
}

func run(ctx context.Context, s cli.Streams, args []string) (int, error) {
	if len(args) == 0 {
		return 0, errors.New(needed)
	}
	if args[0] == "completion" { // which lists the commands
		return completion(ctx, s, args[1:])
	}
	if cmd, ok := commands[args[0]]; ok {
		return cmd(ctx, s, args[1:])
	}
	if !strings.HasPrefix(args[0], "-") {
		return 0, fmt.Errorf("unknown command %q: want run, peers, synth, quantize, compare, merge, report or results, or --sweep NAME (see --help)", args[0])
	}
	return sweepCommand(ctx, s, args)
}
