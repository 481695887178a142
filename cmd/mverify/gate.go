package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"minfer/cmd/internal/cli"
	"minfer/engine/lever"
	"minfer/suites"
	"minfer/suites/greedy"
)

// gate is the suite of --golden in place of the suite greedy, nil without it.
func (f *flags) gate(chosen []suites.Suite, levers lever.Levers) (*greedy.Gate, error) {
	if f.golden == "" {
		switch {
		case f.update:
			return nil, errors.New("--update: it writes the file of --golden: want --golden FILE")
		case f.prompts != "":
			return nil, fmt.Errorf("--prompts %s: they are continued for --golden: want --golden FILE", f.prompts)
		case f.tokens != 0:
			return nil, fmt.Errorf("--tokens %d: it is for --golden: want --golden FILE", f.tokens)
		}
		return nil, nil
	}
	if len(chosen) != 1 || chosen[0].Name() != (greedy.Suite{}).Name() {
		return nil, fmt.Errorf("--golden %s: want --suite greedy, not %q", f.golden, f.suites)
	}
	if f.update && (f.filter != "" || f.shard != "" || f.list || f.failFast) {
		return nil, errors.New("--update: it writes all of the file: want no --filter, --shard, --fail-fast or --list")
	}
	if f.tokens < 0 || f.tokens > 1<<16 {
		return nil, fmt.Errorf("--tokens %d: want 1 to %d", f.tokens, 1<<16)
	}
	o := greedy.GateOptions{Path: f.golden, Tokens: f.tokens, Levers: levers, Update: f.update}
	data, err := os.ReadFile(f.golden)
	switch {
	case err == nil:
		o.Data = data
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("--golden: %w", err)
	}
	if f.prompts != "" {
		if o.Prompts, err = readPrompts(f.prompts); err != nil {
			return nil, err
		}
	}
	if o.Update {
		p := cli.Provenance(cli.Streams{}, "mverify", nil, "")
		o.Date, o.Commit = time.Now().UTC().Format(time.DateOnly), p.Commit
	}
	g, err := greedy.NewGate(o)
	if err != nil {
		return nil, fmt.Errorf("--golden: %w", err)
	}
	return g, nil
}

// readPrompts reads one prompt a line; empty lines are none.
func readPrompts(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--prompts: %w", err)
	}
	var list []string
	s := bufio.NewScanner(bytes.NewReader(data))
	s.Buffer(nil, 1<<20)
	for n := 1; s.Scan(); n++ {
		if !utf8.Valid(s.Bytes()) {
			return nil, fmt.Errorf("--prompts: %s:%d: want UTF-8", path, n)
		}
		if line := s.Text(); line != "" {
			list = append(list, line)
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("--prompts: %s: %w", path, err)
	}
	if list == nil {
		return nil, fmt.Errorf("--prompts: %s: no prompt in the file", path)
	}
	return list, nil
}

// writeGolden writes the golden file and says what is new in it. The file is replaced
// whole, so that an interrupted run leaves the old one.
func (f *flags) writeGolden(s cli.Streams, g *greedy.Gate) error {
	written := false
	changed, total, err := g.Write(func(path string, data []byte) error {
		written = true
		temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
		if err != nil {
			return err
		}
		_, err = temp.Write(data)
		err = errors.Join(err, temp.Chmod(0o644), temp.Close())
		if err == nil {
			err = os.Rename(temp.Name(), path)
		}
		if err != nil {
			os.Remove(temp.Name())
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("--golden: %w", err)
	}
	if !written {
		fmt.Fprintf(s.Stderr, "mverify: %s is as it was: %d continuations are the same\n", f.golden, total)
		return nil
	}
	fmt.Fprintf(s.Stderr, "mverify: wrote %s: %d of %d continuations are new or changed\n", f.golden, changed, total)
	return nil
}
