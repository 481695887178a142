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
}

// Main runs a command as a process: interrupt ends it cleanly, an error is one
// line on stderr and exit code 2.
func Main(name string, run func(ctx context.Context, s Streams, args []string) (int, error)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	s := Streams{Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ()}
	code := Run(ctx, name, s, os.Args[1:], run)
	stop()
	os.Exit(code)
}

// Run is Main without the process: it gives the exit code.
func Run(ctx context.Context, name string, s Streams, args []string, run func(ctx context.Context, s Streams, args []string) (int, error)) int {
	code, err := run(ctx, s, args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return harness.ExitHeld
	case err != nil:
		for _, line := range strings.Split(err.Error(), "\n") {
			fmt.Fprintf(s.Stderr, "%s: %s\n", name, line)
		}
		return harness.ExitBadInput
	}
	return code
}

// Flags makes a flag set whose usage goes to stdout when asked for with --help
// and whose errors are the caller's to print.
func Flags(s Streams, name, usage string) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.SortFlags = false
	f.Usage = func() { fmt.Fprintf(s.Stdout, "%s\n\n%s", strings.TrimSpace(usage), f.FlagUsages()) }
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
