package peers

import (
	"fmt"
	"strings"
)

// Limit is a row's share of what bounds it, for people to read; "" without one.
func (r *Row) Limit() string {
	if share := max(r.OfLimit, r.OfAdds); share > 0 {
		return fmt.Sprintf("%.0f %%", 100*share)
	}
	return ""
}

// Markdown is a table of records: of each test this engine's rate, that of
// llama.cpp's best setting, and how they compare.
func Markdown(records []*Record) string {
	var b strings.Builder
	b.WriteString("| file | threads | llama.cpp's library | test | minfer | llama.cpp's best | minfer / best | of the limit |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, rec := range records {
		name := strings.TrimSuffix(strings.TrimPrefix(rec.Model, "synth-"), ".gguf")
		if !rec.Agree {
			name += " (DIFFERS: does not count)"
		}
		for i := range rec.Rows {
			r := &rec.Rows[i]
			if r.Side != Ours {
				continue
			}
			best := bestOf(rec, r.Test)
			how := strings.TrimPrefix(strings.TrimPrefix(best.Side, "llama.cpp"), ", ")
			if how != "" {
				how = " (" + how + ")"
			}
			threads := fmt.Sprint(rec.Threads)
			if rec.Threads == 0 {
				threads = "GPU"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %.1f | %.1f%s | %.2f | %s |\n", name, threads, rec.Variant, r.Test, r.Rate, best.Rate, how, r.VsLlama, r.Limit())
		}
	}
	return b.String()
}

// bestOf is the fastest of llama.cpp's settings in a test.
func bestOf(rec *Record, test string) Row {
	var best Row
	for _, r := range rec.Rows {
		if r.Test == test && r.Side != Ours && r.Rate > best.Rate {
			best = r
		}
	}
	return best
}
