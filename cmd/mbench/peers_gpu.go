package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"minfer/cmd/internal/cli"
	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/engine/model"
	"minfer/metal"
	"minfer/refs/llamacpp"
	"minfer/suites"
	"minfer/suites/limits"
	"minfer/suites/peers"
)

const (
	// gpuLayers is more than any model has.
	gpuLayers = 99
	// gpuRead is the memory that the rate of reads is measured over, many times what the
	// caches of a GPU hold, and gpuTime what a round of that takes at the least.
	gpuRead = 1 << 30
	gpuTime = 2 * time.Millisecond
)

// gpuFlags says what makes no sense on a GPU: what a user asks for and would not get.
func gpuFlags(device string, changed func(flag string) bool, check bool, levers lever.Levers, o *peers.GPUOptions) error {
	switch {
	case levers.DisableMPS:
		return fmt.Errorf("--device %s: GPUs are kept out by MINFER_DISABLE_MPS", device)
	case check:
		return fmt.Errorf("--check with --device %s: it compares bits, which a GPU's logits do not share with llama.cpp's; they are held against the float64 model in each run", device)
	case changed("threads"):
		return fmt.Errorf("--threads with --device %s: a GPU's work has none", device)
	}
	return o.CheckGPU()
}

// peersGPU is peersCommand on a GPU: llama.cpp's backend of the device's name beside
// this engine's device.
func peersGPU(ctx context.Context, s cli.Streams, args []string, device string, levers lever.Levers, lib *llamacpp.Lib, o peers.Options, paths []string, folder, format string) (int, error) {
	gpus, err := lib.LoadBackend(device)
	if err != nil {
		return 0, err
	}
	if err := oneGPU(gpus); err != nil {
		return 0, fmt.Errorf("--device %s: %w", device, err)
	}
	levers.CacheType = o.KVType.String()
	dev, err := cli.Device(device, cli.DeviceOptions{Levers: levers})
	if err != nil {
		return 0, err
	}
	all := &gathered{s: s, args: args, folder: folder, device: dev.Describe()}
	var ended error
	for _, o.Path = range paths {
		var rec *peers.Record
		if rec, ended = peerOnGPU(ctx, lib, dev, levers, o); rec != nil {
			oracle := fmt.Sprintf("%s, ggml-%s on %s, %s layers there", cli.Describe(lib), device, gpus[0], rec.Offloaded)
			ended = errors.Join(all.add(rec, device, oracle), ended)
		}
		if ended != nil {
			break
		}
	}
	return all.end(format, ended)
}

// oneGPU refuses several: llama.cpp spreads a model's layers over all, this engine has one.
func oneGPU(gpus []string) error {
	if len(gpus) != 1 {
		return fmt.Errorf("llama.cpp finds %d GPUs (%s): want one, as with CUDA_VISIBLE_DEVICES=0", len(gpus), strings.Join(gpus, ", "))
	}
	return nil
}

// peerOnGPU measures one file.
func peerOnGPU(ctx context.Context, lib *llamacpp.Lib, dev suites.Device, levers lever.Levers, o peers.Options) (*peers.Record, error) {
	env := &suites.Env{Device: dev}
	defer env.Close()
	backends, err := env.Backends(1, metal.Options{Levers: levers})
	if err != nil {
		return nil, err
	}
	b, ok := backends[0].(*metal.Backend)
	if !ok {
		return nil, fmt.Errorf("device %s has no GPU", dev.Describe())
	}
	read, _, err := limits.Device(ctx, b.Device(), gpuRead, gpuTime)
	if err != nil {
		return nil, err
	}
	return peers.RunGPU(ctx, lib, peers.GPUOptions{Options: o, Read: read, Layers: gpuLayers, Hold: func(m *model.Model) (graph.Backend, gguf.Type, error) {
		kv, err := hold(m, b, levers)
		return b, kv, err
	}})
}
