// Command mverify holds every execution path of the engine against its own
// reference, case by case.
//
//	mverify --suite ops                       each kernel, bit for bit
//	mverify --suite dumps --llama DIR         every node against a live llama.cpp
//	mverify --suite ops --filter 'q4_K' -v    some cases, all lines
//	mverify --suite ops --cases my.jsonl      your own shapes
//	mverify --suite all --device cpu,soft     all of them, on both devices
//	mverify --suite greedy --golden my.json   generated text is what was reviewed
//	mverify compile my.metal                  does it compile, with which kernels
//	mverify init my.metal                     a launch case to fill in
//	mverify case my.json                      run it under the sanitizer
//	mverify record --llama DIR                write the recorded node values again
//	mverify merge shard-*.json                the reports of a run's shards in one
//
// It exits with 0 when all held, 1 when something did not, 2 for bad usage or
// bad input, 3 when nothing ran.
package main

import "minfer/cmd/internal/cli"

func main() { cli.Main("mverify", run) }
