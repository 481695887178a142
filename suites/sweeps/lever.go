package sweeps

import (
	"fmt"
	"strings"

	"minfer/engine/lever"
)

// auto stands for a lever that is unset, so that the backend chooses.
const auto = "auto"

// pair is how a lever is measured: two values, in a setting where it is live.
type pair struct {
	lever, a, b string
	with        []string // other levers that it needs, as NAME=value
	tokens      int      // it shows in a prefill of at least that many; 0 for decode
	// What it changes where it chooses no kernels; "" where it does.
	differs string
	flash   bool // only for heads that the flash and split families have kernels for
	apart   bool // it moves the output
}

// pairs is every lever, in the order of the documentation.
var pairs = []pair{
	{lever: "MINFER_NO_FLASH", a: "0", b: "1", flash: true},
	{lever: "MINFER_NO_PREFILL_FLASH", a: "0", b: "1", tokens: 2, flash: true},
	{lever: "MINFER_NO_MATMUL_ATTN", a: "0", b: "1", with: []string{"MINFER_NO_PREFILL_FLASH=1"}, tokens: 2},
	{lever: "MINFER_NO_SPLIT_ATTN", a: "0", b: "1", with: []string{"MINFER_NO_FLASH=1"}, flash: true},
	{lever: "MINFER_NO_RMS_256", a: "0", b: "1"},
	{lever: "MINFER_GEMM", a: "1", b: "0", tokens: gemmTokens},
	{lever: "MINFER_CACHE_TYPE", a: "f16", b: "q8_0", differs: "element type of the KV cache", apart: true},
	{lever: "MINFER_ATTN_CHUNKS", a: auto, b: "1", with: []string{"MINFER_NO_FLASH=0"}, differs: "threadgroups of decode flash: KV chunks of a head", flash: true},
	{lever: "MINFER_NO_FUSE_QKV", a: "0", b: "1"},
	{lever: "MINFER_NO_FUSE_FFN", a: "0", b: "1"},
	{lever: "MINFER_WEIGHT_COPY", a: "0", b: "1", differs: "memory that the weights lie in"},
}

// pairOf finds a lever's.
func pairOf(name string) pair {
	for _, p := range pairs {
		if p.lever == name {
			return p
		}
	}
	return pair{}
}

// apply makes a scenario's sides of the pair: on the base setting, with what the
// lever needs.
func (p pair) apply(s *Scenario, base lever.Levers) error {
	var err error
	for _, entry := range p.with {
		name, value, _ := strings.Cut(entry, "=")
		if base, err = with(base, name, value); err != nil {
			return err
		}
	}
	v, ok := lever.Find(p.lever)
	if !ok {
		return fmt.Errorf("no lever %s", p.lever)
	}
	s.Lever, s.Kernels, s.Differs, s.apart = p.lever, p.differs == "", p.differs, p.apart
	for _, value := range []string{p.a, p.b} {
		l, err := with(base, p.lever, value)
		if err != nil {
			return err
		}
		if !v.Live(l) {
			return fmt.Errorf("%s is not live here: it is %s", p.lever, v.LiveWhen)
		}
		s.Sides = append(s.Sides, Setting{Name: p.lever + "=" + value, Levers: l})
	}
	return nil
}

// with is a setting with one lever at another value.
func with(l lever.Levers, name, value string) (lever.Levers, error) {
	v, ok := lever.Find(name)
	if !ok {
		return l, fmt.Errorf("no lever %s", name)
	}
	if value != auto {
		return v.With(l, value)
	}
	if name == "MINFER_ATTN_CHUNKS" {
		l.AttnChunks = 0
	}
	return l, nil
}
