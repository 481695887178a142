package cli

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"minfer/harness"
)

// Provenance describes this run: a command, its arguments and its device.
func Provenance(s Streams, name string, args []string, device string) harness.Provenance {
	words := []string{name}
	for _, a := range args {
		words = append(words, harness.ShellQuote(a))
	}
	var levers []string
	for _, kv := range s.Environ {
		if strings.HasPrefix(kv, "MINFER_") {
			levers = append(levers, kv)
		}
	}
	return harness.Provenance{
		Date:    time.Now().UTC().Format(time.RFC3339),
		Command: strings.Join(words, " "),
		Commit:  commit(),
		Host:    host(),
		Device:  device,
		Levers:  strings.Join(levers, " "),
	}
}

// commit is the revision that the binary was built from.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	rev, dirty := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	return rev + dirty
}

// Version is the text of --version: the commit that the binary was built from and
// its date.
func Version(name string) string {
	date := "of an unknown date"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				date = "of " + s.Value
			}
		}
	}
	return fmt.Sprintf("%s %s %s (%s %s/%s)", name, commit(), date, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// host names the processor as far as the system tells, without identifying the
// machine.
func host() string {
	model := runtime.GOARCH
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for sc := bufio.NewScanner(f); sc.Scan(); {
			if k, v, ok := strings.Cut(sc.Text(), ":"); ok && strings.TrimSpace(k) == "model name" {
				model = strings.TrimSpace(v)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %s", model, runtime.NumCPU(), runtime.GOOS)
}
