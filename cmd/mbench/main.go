// Command mbench runs the engine and measures it.
//
//	mbench run --prompt "In the beginning" -n 48      text from the embedded model, with tokens/s
//	mbench run --model FILE --prompt TEXT -n N        the same from a file
//	mbench peers --llama DIR                          llama.cpp beside this engine, interleaved, in one run
//	mbench synth --arch qwen2 --size 0.5b --type q4_0 -o FILE
//	mbench quantize IN OUT TYPE
//	mbench compare OLD.json NEW.json                  two recorded runs, with confidence intervals
//	mbench merge FILE...                              the records of a sweep's shards in one
//	mbench report FILE... -o report.html              one page of recorded runs, with plots
//	mbench results                                    results/METAL_OPTIMIZATIONS.md from its records
//
// It exits with 0 when done, 1 when something did not hold, 2 for bad usage or bad
// input, 3 when nothing ran.
package main

import "minfer/cmd/internal/cli"

func main() { cli.Main("mbench", run) }
