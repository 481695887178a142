package page

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"minfer/harness"
)

// synthetic are records such as a day of sweeps leaves: several devices and sweeps,
// long names, characters that HTML must not take for its own, faults, and scenarios
// at three dates.
func synthetic() []harness.Record {
	rng := rand.New(rand.NewPCG(7, 0))
	var out []harness.Record
	model := &harness.ModelRef{Name: "tiny-qwen2", Type: "q4_0", SHA256: strings.Repeat("ab", 32)}
	limits := []harness.Limit{{Name: "read", Unit: "B/s", Rate: 12e9}, {Name: "multiply_add", Unit: "1/s", Rate: 9e9}}
	side := func(name string, s float64, w harness.Work) harness.Measured {
		m := harness.Measured{Name: name, Levers: name, Work: w, Greedy: "aa", Pipelines: []string{"attention f16 flash_decode_64"}}
		for range 24 {
			m.Seconds = append(m.Seconds, s*math.Exp(0.03*rng.NormFloat64()))
		}
		m.Median, _, _ = harness.MedianInterval(m.Seconds, 0.95)
		m.Counters = &harness.Counters{Dispatches: 12, BytesRead: w.Bytes + 1000, BytesWritten: 4096, Instructions: int64(s * 1e8), Barriers: 40, Divergent: 3}
		return m
	}
	pair := func(p harness.Provenance, sweep, op, lever string, params []harness.Param, a, b float64, w harness.Work) {
		r := harness.Record{Provenance: p, Sweep: sweep, Op: op, Params: params, Model: model, Lever: lever, Limits: limits,
			Sides: []harness.Measured{side(lever+"=0", a, w), side(lever+"=1", b, w)}}
		ratio := b / a
		r.AB = &harness.AB{MedianA: a, MedianB: b, Ratio: ratio, Lo: ratio * 0.97, Hi: ratio * 1.025, Level: 0.95, Stop: "24 rounds", Warnings: []string{"noise: the middle half of side A's rounds spreads over 12 % of its median"}}
		out = append(out, r)
	}
	for day, commit := range []string{"0123abcdef", "4567abcdef", "89ababcdef"} {
		p := harness.Provenance{Date: fmt.Sprintf("2026-11-%02dT03:00:00Z", 28+day), Commit: commit, Host: "Some Processor <8> & more, 2 cores, linux",
			Device: "Software Metal device (2 threads)", Command: `mbench --sweep levers,attention --filter '<b>"x"</b>'`}
		scale := 1 - 0.04*float64(day)
		for i, l := range []string{"MINFER_NO_FLASH", "MINFER_NO_SPLIT_ATTN", "MINFER_NO_PREFILL_FLASH", "MINFER_NO_MATMUL_ATTN", "MINFER_NO_RMS_256", "MINFER_GEMM", "MINFER_CACHE_TYPE", "MINFER_NO_FUSE_QKV", "MINFER_NO_FUSE_FFN", "MINFER_WEIGHT_COPY"} {
			pair(p, "levers", "decode", l, []harness.Param{harness.P("n_kv", 512), harness.P("hd", 64), harness.P("cache", "f16")}, 0.011*scale, 0.011*[]float64{1.4, 1.08, 0.7, 2.6, 1.002, 1.3, 0.99, 1.15, 1.2, 1.01}[i], harness.Work{Tokens: 4, Bytes: 1 << 24, MultiplyAdds: 1 << 21})
		}
		if day < 2 {
			continue
		}
		for _, kv := range []int{32, 128, 512, 2048, 8192} {
			for i, l := range []string{"MINFER_NO_FLASH", "MINFER_NO_SPLIT_ATTN"} {
				t := 2e-4 + float64(kv)*1.2e-6
				pair(p, "attention", "attention", l, []harness.Param{harness.P("hd", 64), harness.P("n_head", 14), harness.P("n_head_kv", 2), harness.P("n_kv", kv), harness.P("cache", "f16")}, t, t*(1.1+0.2*float64(i)), harness.Work{MultiplyAdds: int64(kv) * 1800, Bytes: int64(kv) * 512})
			}
		}
		for _, d := range []string{p.Device, "cpu (avx2)"} {
			p.Device = d
			for _, pp := range []int{1, 8, 32, 128, 512} {
				for _, typ := range []string{"q4_0", "q8_0", "f16"} {
					rate := 900 * float64(pp) / (float64(pp) + 20) / float64(len(typ))
					s := side("prefill", float64(pp)/rate, harness.Work{Tokens: int64(pp), Bytes: 1 << 22, MultiplyAdds: int64(pp) << 20})
					m := *model
					m.Type = typ
					out = append(out, harness.Record{Provenance: p, Sweep: "prefill", Op: "prefill", Params: []harness.Param{harness.P("pp", pp)}, Model: &m, Limits: limits, Sides: []harness.Measured{s}})
				}
			}
		}
	}
	out[2].Sides[1].Greedy, out[22].Sides[1].Greedy = "bb", "bb"
	return out
}
