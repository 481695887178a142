package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"

	"minfer/cmd/internal/cli"
	"minfer/harness"
)

const compareUsage = `
mbench compare holds a run against an older one, scenario by scenario: medians of
time, their ratio with a bootstrap interval, and a software device's counters,
which are the same in every run and so compare exactly. The samples of two runs are
not matched: what else changed between the runs is in the ratio too, and warnings
name what is known of it. Where a scenario has two sides, B/A new/old is how their
ratio changed, free of the speed of the machine.

With --gate, a counter that grows by more than PERCENT, a greedy text that changes,
or a scenario that is gone is exit 1; times are never gated.

usage: mbench compare OLD.json NEW.json [flags]
`

// compareFormats are those of mbench compare.
var compareFormats = []string{"table", "md", "csv", "json"}

func compareCommand(_ context.Context, s cli.Streams, args []string) (int, error) {
	var format, out string
	var gate, level float64
	set := cli.Flags(s, "mbench compare", compareUsage)
	set.Float64Var(&gate, "gate", 0, "exit 1 when a counter grows by more than this many percent")
	set.Float64Var(&level, "level", 0.95, "level of confidence of the intervals")
	set.StringVar(&format, "format", "table", "output: "+strings.Join(compareFormats, ", "))
	set.StringVar(&out, "out", "", "write to this file instead of stdout")
	if err := cli.Parse(set, args, 2, 2); err != nil {
		return 0, err
	}
	switch {
	case !slices.Contains(compareFormats, format):
		return 0, fmt.Errorf("unknown format %q: want one of %s", format, strings.Join(compareFormats, ", "))
	case !(level > 0 && level < 1):
		return 0, fmt.Errorf("--level %v: want more than 0 and less than 1", level)
	case !(gate >= 0):
		return 0, fmt.Errorf("--gate %v: want percent, at least 0", gate)
	}
	var runs [2][]harness.Record
	for i := range runs {
		var err error
		if runs[i], err = readRecords(set.Arg(i)); err != nil {
			return 0, err
		}
	}
	changes, err := harness.CompareRuns(runs[0], runs[1], level)
	if err != nil {
		return 0, err
	}
	err = writeTo(s.Stdout, out, func(w io.Writer) error {
		switch format {
		case "json":
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			return enc.Encode(changes)
		case "table":
			if len(changes.Changes) == 0 {
				return nil
			}
			return renderTable(w, changes.Table())
		}
		return changes.Table().Write(w, format)
	})
	if err != nil {
		return 0, err
	}
	for _, w := range changes.Warnings {
		fmt.Fprintf(s.Stderr, "mbench: not the same: %s\n", w)
	}
	for _, key := range changes.OnlyOld {
		fmt.Fprintf(s.Stderr, "mbench: in the old run only: %s\n", key)
	}
	for _, key := range changes.OnlyNew {
		fmt.Fprintf(s.Stderr, "mbench: in the new run only: %s\n", key)
	}
	fmt.Fprintln(s.Stderr, "mbench: "+summary(changes))
	if changes.Doubted > 0 {
		fmt.Fprintf(s.Stderr, "mbench: %d of the scenarios were warned of noise or drift: their times may differ between runs of the same code\n", changes.Doubted)
	}
	if !set.Changed("gate") {
		if len(changes.Changes) == 0 {
			return harness.ExitNothing, nil
		}
		return harness.ExitHeld, nil
	}
	faults, compared := changes.Gate(gate)
	for _, f := range faults {
		fmt.Fprintf(s.Stderr, "mbench: gate: %s\n", f)
	}
	switch {
	case len(faults) > 0:
		return harness.ExitFailed, nil
	case compared == 0:
		fmt.Fprintln(s.Stderr, "mbench: gate: no counters in both runs: nothing was held")
		return harness.ExitNothing, nil
	}
	return harness.ExitHeld, nil
}

// summary counts, in a line.
func summary(c *harness.RunChanges) string {
	var slower, faster, counters int
	for i := range c.Changes {
		switch t := c.Changes[i].Time; {
		case t.Differs() && t.Lo > 1:
			slower++
		case t.Differs():
			faster++
		}
		if c.Changes[i].Changed() {
			counters++
		}
	}
	return fmt.Sprintf("%d sides compared: %d slower, %d faster, %d with no difference shown; counters changed in %d",
		len(c.Changes), slower, faster, len(c.Changes)-slower-faster, counters)
}

// readRecords reads a file of records.
func readRecords(path string) ([]harness.Record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return harness.ReadRecords(path, data)
}

// writeTo gives the file at path, or stdout for "", to a function.
func writeTo(stdout io.Writer, path string, write func(io.Writer) error) error {
	if path == "" {
		return write(stdout)
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return errors.Join(write(f), f.Close())
}

// renderTable prints for a terminal.
func renderTable(w io.Writer, t harness.Table) error {
	align := make([]tw.Align, len(t.Columns))
	head := make([]any, len(t.Columns))
	for i, c := range t.Columns {
		head[i], align[i] = c.Name, tw.AlignLeft
		if c.Numeric {
			align[i] = tw.AlignRight
		}
	}
	table := tablewriter.NewTable(w, tablewriter.WithHeaderAutoFormat(tw.Off), tablewriter.WithRowAutoWrap(tw.WrapNone), tablewriter.WithAlignment(align))
	table.Header(head...)
	for _, row := range t.Rows {
		if err := table.Append(row); err != nil {
			return err
		}
	}
	return table.Render()
}
