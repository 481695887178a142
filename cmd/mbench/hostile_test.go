package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"minfer/cpu"
	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/model"
	"minfer/engine/session"
	"minfer/engine/tokenizer"
	"minfer/refs/models"
)

var mutations = flag.Int("mutations", 300, "damaged copies of each embedded model that TestDamagedModels tries")

// Whatever a file's header and metadata say, loading it and evaluating a token
// ends in an answer or in one line: no panic, no long loop, no memory beyond
// what the file itself accounts for.
func TestDamagedModels(t *testing.T) {
	backend, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	defer backend.Close()
	for _, name := range models.Names() {
		f, err := models.Open(name)
		require.NoError(t, err)
		data := slices.Clone(f.Parts[0].Data)
		head := len(data) // up to the tensors' data, which ends the file
		for i := range f.Tensors {
			head -= (len(f.Tensors[i].Data) + 31) / 32 * 32
		}
		f.Close()
		r := rand.New(rand.NewPCG(1, uint64(head)))
		loaded := 0
		for i := range *mutations {
			saved := slices.Clone(data[:head])
			for range 1 + r.IntN(3) {
				damage(r, data[:head])
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			err := evaluate(backend, data)
			runtime.ReadMemStats(&after)
			at := fmt.Sprintf("%s, copy %d: %.3000s", name, i, fmt.Sprint(err))
			assert.Less(t, time.Since(start), 5*time.Second, at)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<20), at)
			if err == nil {
				loaded++
			} else {
				assert.NotContains(t, err.Error(), "\n", at)
				assert.Less(t, len(err.Error()), 600, at)
				assert.False(t, strings.HasPrefix(err.Error(), "panic"), at)
			}
			copy(data, saved)
		}
		t.Logf("%s: %d of %d damaged copies still load", name, loaded, *mutations)
		require.NotZero(t, loaded)
		require.Less(t, loaded, *mutations)
	}
}

// damage changes one byte or one number of the region.
func damage(r *rand.Rand, region []byte) {
	i := r.IntN(len(region))
	switch r.IntN(4) {
	case 0:
		region[i] ^= 1 << r.IntN(8)
	case 1:
		region[i] = byte(r.Uint32())
	case 2:
		region[i] = [...]byte{0, 1, 0x7f, 0x80, 0xff}[r.IntN(5)]
	default: // what a count, a length or a float of bad value looks like
		bad := [...][]byte{{0, 0, 0, 0}, {0xff, 0xff, 0xff, 0xff}, {0, 0, 0xc0, 0x7f}, {0, 0, 0x80, 0x7f}, {0, 0, 0, 0x80}, {1, 0, 0, 0}}
		copy(region[i:], bad[r.IntN(len(bad))])
	}
}

// evaluate loads a file and evaluates a prompt of it; a panic is an error here.
func evaluate(backend graph.Backend, data []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			buf := make([]byte, 4096)
			err = fmt.Errorf("panic: %v\n%s", p, buf[:runtime.Stack(buf, false)])
		}
	}()
	f, err := gguf.Read("damaged.gguf", data)
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := model.Load(f)
	if err != nil {
		return err
	}
	t, err := tokenizer.New(f)
	if err != nil {
		return err
	}
	ids := t.Encode("In the beginning, 1234", tokenizer.Options{AddSpecial: true, ParseSpecial: true})
	t.Decode(ids)
	s, err := session.New(m, session.Options{Backends: []graph.Backend{backend}, NCtx: 64, KVType: gguf.F16})
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.Eval(ids[:min(len(ids), 3)])
	return err
}
