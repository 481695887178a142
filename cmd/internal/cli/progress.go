package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"minfer/harness"
)

// Progress gives an observer for harness.Runner: a bar when w is a terminal, and
// otherwise a line every ten seconds, so that a CI log shows life.
func Progress(w io.Writer, what string) func(done, total int, r harness.Result) {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		var bar *progressbar.ProgressBar
		return func(done, total int, r harness.Result) {
			if bar == nil {
				bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
					progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
			}
			bar.Set(done)
		}
	}
	last := time.Now()
	return func(done, total int, r harness.Result) {
		if now := time.Now(); now.Sub(last) >= 10*time.Second {
			last = now
			fmt.Fprintf(w, "%s: %d of %d: %s %s\n", what, done, total, r.Outcome, r.Case)
		}
	}
}
