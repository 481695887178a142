package main

import (
	"flag"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var startModel = flag.String("start-model", "", "model file of BenchmarkFirstToken, with its whole path: tests run in their package's folder; the embedded model without it")

// From the start of the process to the first token on its standard output, and to its
// end. The file should be in memory: the first runs after a pause are slower.
//
//	mbench synth --arch qwen2 --size 0.5b --type q4_0 -o FILE
//	go test ./cmd/mbench -run xxx -bench FirstToken -benchtime 15x -args -start-model $PWD/FILE
func BenchmarkFirstToken(b *testing.B) {
	const prompt = "In the beginning"
	program := filepath.Join(b.TempDir(), "mbench")
	out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(b, err, string(out))
	args := []string{"run", "--prompt", prompt, "-n", "1", "--device", "cpu", "--ctx", "4096", "--ignore-eos"}
	if *startModel != "" {
		require.True(b, filepath.IsAbs(*startModel), "-start-model %s: want the whole path, tests run in their package's folder", *startModel)
		args = append(args, "--model", *startModel)
	}
	var first, end []time.Duration
	for b.Loop() {
		cmd := exec.Command(program, args...)
		text, err := cmd.StdoutPipe()
		require.NoError(b, err)
		start := time.Now()
		require.NoError(b, cmd.Start())
		echo := make([]byte, len(prompt)+1) // and a byte of the token's text, or the line's end
		_, err = io.ReadFull(text, echo)
		first = append(first, time.Since(start))
		require.NoError(b, err)
		require.Equal(b, prompt, string(echo[:len(prompt)]))
		_, err = io.Copy(io.Discard, text)
		require.NoError(b, err)
		require.NoError(b, cmd.Wait())
		end = append(end, time.Since(start))
	}
	for unit, list := range map[string][]time.Duration{"first-token": first, "end": end} {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2].Seconds()*1e3, "ms/"+unit+"-median")
		b.ReportMetric(list[len(list)-1].Seconds()*1e3, "ms/"+unit+"-max")
	}
}
