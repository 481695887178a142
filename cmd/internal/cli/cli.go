// Package cli is what mverify and mbench share: bad-input errors and exit codes,
// the levers, devices, models by name or file, provenance and progress. It
// constructs; it decides nothing about what is verified or measured.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"minfer/harness"
)

// Streams are the outside of a command: where it writes and what it was given.
// Tests run commands in the process with streams of their own.
type Streams struct {
	Stdout, Stderr io.Writer
	Environ        []string
	// sets, where not nil, collects the flag sets that a command makes.
	sets *[]*pflag.FlagSet
}

// Main runs a command as a process: interrupt ends it cleanly (a second one,
// at once), an error is one line on stderr and exit code 2.
func Main(name string, run func(ctx context.Context, s Streams, args []string) (int, error)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	s := Streams{Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ()}
	code := Run(ctx, name, s, os.Args[1:], run)
	stop()
	os.Exit(code)
}

// Run is Main without the process: it gives the exit code.
func Run(ctx context.Context, name string, s Streams, args []string, run func(ctx context.Context, s Streams, args []string) (int, error)) int {
	out := &output{w: s.Stdout}
	s.Stdout = out
	code, err := run(ctx, s, args)
	if err == nil && out.err != nil {
		err = fmt.Errorf("standard output: %w", out.err)
	}
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return harness.ExitHeld
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		fmt.Fprintf(s.Stderr, "%s: interrupted\n", name)
		return harness.ExitFailed
	case err != nil:
		for _, line := range strings.Split(err.Error(), "\n") {
			fmt.Fprintf(s.Stderr, "%s: %s\n", name, clip(line))
		}
		return harness.ExitBadInput
	}
	return code
}

// output remembers the first failure to write, so that a result that was lost
// (a full disk) is not reported as done.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// maxMessage bounds a line of an error, in bytes: names and values that came out
// of a file may have any length.
const maxMessage = 1000

func clip(line string) string {
	if len(line) <= maxMessage {
		return line
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(line[:maxMessage], ""), len(line))
}

// Flags makes a flag set whose usage goes to stdout when asked for with --help
// and whose errors are the caller's to print.
func Flags(s Streams, name, usage string) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.SortFlags = false
	f.Usage = func() { fmt.Fprintf(s.Stdout, "%s\n\n%s", strings.TrimSpace(usage), f.FlagUsages()) }
	if s.sets != nil {
		*s.sets = append(*s.sets, f)
	}
	return f
}

// Parse reads the flags. Arguments beyond them must number from lo to hi.
func Parse(f *pflag.FlagSet, args []string, lo, hi int) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if n := f.NArg(); n < lo || n > hi {
		if n > hi {
			return fmt.Errorf("unexpected argument %q (see --help)", f.Arg(hi))
		}
		return fmt.Errorf("%d arguments, want %d (see --help)", n, lo)
	}
	return nil
}

// DefaultThreads is the number of threads where none is asked for.
func DefaultThreads() int { return runtime.NumCPU() }
