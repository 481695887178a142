package harness

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// RecordFormats lists what WriteRecords knows. "table" is for a terminal and is
// the command's own affair.
var RecordFormats = []string{"md", "csv", "json", "jsonl", "sql", "benchfmt"}

// WriteRecords prints records in a format of RecordFormats.
func WriteRecords(w io.Writer, format string, records []Record) error {
	b := bufio.NewWriter(w)
	var err error
	switch format {
	case "md":
		groups := BySweep(records)
		for i, group := range groups {
			if i > 0 {
				fmt.Fprintln(b)
			}
			if len(groups) > 1 {
				fmt.Fprintf(b, "## %s\n\n", group[0].Sweep)
			}
			writeMarkdown(b, NewTable(group))
		}
	case "csv":
		err = writeCSV(b, flatTable(records))
	case "json":
		enc := json.NewEncoder(b)
		enc.SetIndent("", "  ")
		err = enc.Encode(records)
	case "jsonl":
		enc := json.NewEncoder(b)
		for i := range records {
			if err == nil {
				err = enc.Encode(&records[i])
			}
		}
	case "sql":
		writeSQL(b, records)
	case "benchfmt":
		writeBenchfmt(b, records)
	default:
		return fmt.Errorf("unknown format %q: want one of table, %s", format, strings.Join(RecordFormats, ", "))
	}
	if err != nil {
		return err
	}
	return b.Flush()
}

// ReadRecords reads what WriteRecords wrote as json or jsonl. Errors name the file
// and the record.
func ReadRecords(name string, data []byte) ([]Record, error) {
	var records []Record
	if first := bytes.TrimLeft(data, " \t\r\n"); len(first) > 0 && first[0] == '[' {
		if err := DecodeJSON(data, &records); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	} else {
		dec := strictDecoder(data)
		for {
			var r Record
			if err := dec.Decode(&r); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: record %d: %w", name, len(records)+1, err)
			}
			records = append(records, r)
		}
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("%s: no records: want a list of them, or one a line", name)
	}
	for i := range records {
		if err := records[i].valid(); err != nil {
			return nil, fmt.Errorf("%s: record %d: %w", name, i+1, err)
		}
	}
	return records, nil
}

// valid checks what the other functions rely on.
func (r *Record) valid() error {
	if r.Sweep == "" || r.Op == "" {
		return fmt.Errorf("sweep %q and op %q: want both", r.Sweep, r.Op)
	}
	if err := r.Provenance.valid(); err != nil {
		return err
	}
	// Names stand in lines and cells.
	names := []string{r.Sweep, r.Op, r.Lever}
	for _, p := range r.Params {
		if p.Key == "" {
			return fmt.Errorf("a parameter without a key, of value %q", p.Value)
		}
		names = append(names, p.Key, p.Value)
	}
	if r.Model != nil {
		names = append(names, r.Model.Name, r.Model.Type)
	}
	if n := len(r.Sides); n < 1 || n > 2 {
		return fmt.Errorf("%d sides: want 1 or 2", n)
	}
	for i := range r.Sides {
		if err := r.Sides[i].valid(); err != nil {
			return fmt.Errorf("side %d %w", i+1, err)
		}
		names = append(names, r.Sides[i].Name, r.Sides[i].Levers)
	}
	for _, name := range names {
		if strings.ContainsFunc(name, unicode.IsControl) {
			return fmt.Errorf("%q: want a name without control characters", name)
		}
	}
	for _, l := range r.Limits {
		if !positive(l.Rate) {
			return fmt.Errorf("limit %q has a rate of %v: want more than 0", l.Name, l.Rate)
		}
	}
	if r.GPU != nil && !positive(r.GPU.Read) {
		return fmt.Errorf("GPU %q reads %v bytes/s: want more than 0", r.GPU.Name, r.GPU.Read)
	}
	if r.AB != nil {
		if len(r.Sides) != 2 || len(r.Sides[0].Seconds) != len(r.Sides[1].Seconds) {
			return errors.New("a comparison without two sides of as many samples")
		}
		if !(r.AB.Lo > 0 && r.AB.Lo <= r.AB.Ratio && r.AB.Ratio <= r.AB.Hi) {
			return fmt.Errorf("ratio %v in the interval %v to %v: want positive numbers in order", r.AB.Ratio, r.AB.Lo, r.AB.Hi)
		}
		if !(r.AB.Level > 0 && r.AB.Level < 1) {
			return fmt.Errorf("an interval of level %v: want a share between 0 and 1", r.AB.Level)
		}
	}
	return nil
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 1) }

// valid says what is wrong with a side, of which "side 1 " is said already.
func (m *Measured) valid() error {
	if !positive(m.Median) {
		return fmt.Errorf("has a median of %v s: want more than 0", m.Median)
	}
	for _, s := range slices.Concat(m.Seconds, m.DeviceS) {
		if !positive(s) {
			return fmt.Errorf("has a sample of %v s: want more than 0", s)
		}
	}
	counts := []int64{int64(m.Inner), m.Work.Tokens, m.Work.MultiplyAdds, m.Work.Bytes, m.WeightSet}
	if c := m.Counters; c != nil {
		counts = append(counts, c.Dispatches, c.BytesRead, c.BytesWritten, c.Instructions, c.Barriers, c.Divergent)
	}
	if least := slices.Min(counts); least < 0 {
		return fmt.Errorf("counts %d: want no number below 0", least)
	}
	if m.GPUSeconds < 0 {
		return fmt.Errorf("takes %v s of a GPU: want no number below 0", m.GPUSeconds)
	}
	return nil
}

// valid checks what orders and joins records.
func (p *Provenance) valid() error {
	if p.Commit == "" {
		return errors.New("no commit in its provenance")
	}
	if _, err := time.Parse(time.RFC3339, p.Date); err != nil {
		return fmt.Errorf("date %q: want one such as 2026-11-30T07:00:00Z", p.Date)
	}
	return nil
}

func writeCSV(w io.Writer, t Table) error {
	c := csv.NewWriter(w)
	var head []string
	for _, col := range t.Columns {
		head = append(head, col.Name)
	}
	if err := c.Write(head); err != nil {
		return err
	}
	if err := c.WriteAll(t.Rows); err != nil {
		return err
	}
	return c.Error()
}

// writeMarkdown prints a table as GitHub reads it.
func writeMarkdown(w io.Writer, t Table) {
	line := func(cells []string) {
		for _, c := range cells {
			fmt.Fprintf(w, "| %s ", strings.NewReplacer("|", "\\|", "\n", " ").Replace(c))
		}
		fmt.Fprintln(w, "|")
	}
	var head, rule []string
	for _, c := range t.Columns {
		head = append(head, c.Name)
		if c.Numeric {
			rule = append(rule, "---:")
		} else {
			rule = append(rule, "---")
		}
	}
	line(head)
	line(rule)
	for _, row := range t.Rows {
		line(row)
	}
}

// sqlColumns is the schema of the one table that writeSQL fills: a row a side.
var sqlColumns = []struct{ name, kind string }{
	{"date", "TEXT"}, {"command", "TEXT"}, {"build_commit", "TEXT"}, {"host", "TEXT"}, {"device", "TEXT"},
	{"sweep", "TEXT"}, {"op", "TEXT"}, {"params", "TEXT"}, {"model", "TEXT"}, {"weights", "TEXT"}, {"model_sha256", "TEXT"},
	{"lever", "TEXT"}, {"side", "TEXT"}, {"side_name", "TEXT"}, {"levers", "TEXT"}, {"pipelines", "TEXT"},
	{"median_s", "REAL"}, {"samples_s", "TEXT"}, {"rate", "REAL"}, {"rate_unit", "TEXT"}, {"share", "REAL"}, {"share_of", "TEXT"},
	{"ratio", "REAL"}, {"ratio_lo", "REAL"}, {"ratio_hi", "REAL"}, {"differs", "INTEGER"},
	{"instructions", "INTEGER"}, {"bytes_read", "INTEGER"}, {"bytes_written", "INTEGER"}, {"barriers", "INTEGER"}, {"divergent", "INTEGER"}, {"dispatches", "INTEGER"},
	{"greedy_sha256", "TEXT"}, {"warnings", "TEXT"},
	{"inner", "INTEGER"}, {"gpu", "TEXT"}, {"gpu_s", "REAL"}, {"differs_in", "TEXT"}, {"check_held", "INTEGER"},
}

// writeSQL prints the schema and one insert a side, which sqlite3 and PostgreSQL
// read.
func writeSQL(w io.Writer, records []Record) {
	fmt.Fprintln(w, "CREATE TABLE IF NOT EXISTS minfer_record (")
	var names []string
	for i, c := range sqlColumns {
		comma := ","
		if i == len(sqlColumns)-1 {
			comma = ""
		}
		fmt.Fprintf(w, "  %s %s%s\n", c.name, c.kind, comma)
		names = append(names, c.name)
	}
	fmt.Fprintln(w, ");")
	for i := range records {
		r := &records[i]
		for s := range r.Sides {
			var values []string
			for _, v := range sqlRow(r, s) {
				values = append(values, sqlValue(v))
			}
			fmt.Fprintf(w, "INSERT INTO minfer_record (%s) VALUES (%s);\n", strings.Join(names, ", "), strings.Join(values, ", "))
		}
	}
}

// sqlRow gives a side's values in the order of sqlColumns; nil is NULL.
func sqlRow(r *Record, s int) []any {
	m := &r.Sides[s]
	var model ModelRef
	if r.Model != nil {
		model = *r.Model
	}
	rate, unit := m.Rate()
	share, of := r.Share(s)
	row := []any{
		r.Provenance.Date, r.Provenance.Command, r.Provenance.Commit, r.Provenance.Host, r.Provenance.Device,
		r.Sweep, r.Op, paramText(r.Params), model.Name, model.Type, model.SHA256,
		r.Lever, string(rune('A' + s)), m.Name, m.Levers, strings.Join(m.Pipelines, ", "),
		m.Median, numbers(m.Seconds), rate, unit, share, of,
	}
	if r.AB != nil {
		differs := 0
		if r.AB.Differs() {
			differs = 1
		}
		row = append(row, r.AB.Ratio, r.AB.Lo, r.AB.Hi, differs)
	} else {
		row = append(row, nil, nil, nil, nil)
	}
	if c := m.Counters; c != nil {
		row = append(row, c.Instructions, c.BytesRead, c.BytesWritten, c.Barriers, c.Divergent, c.Dispatches)
	} else {
		row = append(row, nil, nil, nil, nil, nil, nil)
	}
	row = append(row, m.Greedy, strings.Join(r.Warnings, "; "), m.Inner)
	if r.GPU != nil && m.GPUSeconds > 0 {
		row = append(row, r.GPU.Name, m.GPUSeconds)
	} else {
		row = append(row, nil, nil)
	}
	row = append(row, r.Differs)
	if m.Check == nil {
		return append(row, nil)
	}
	held := 0
	if m.Check.OK() && (r.Check == nil || r.Check.OK()) {
		held = 1
	}
	return append(row, held)
}

// flatTable has a row a side, for programs: numbers in base units, the columns of
// SQL and one for each parameter.
func flatTable(records []Record) Table {
	var t Table
	for _, c := range sqlColumns {
		t.Columns = append(t.Columns, Column{Name: c.name, Numeric: c.kind != "TEXT"})
	}
	keys := paramKeys(records)
	for _, key := range keys {
		t.Columns = append(t.Columns, Column{Name: "param_" + key})
	}
	for i := range records {
		r := &records[i]
		for side := range r.Sides {
			var row []string
			for _, v := range sqlRow(r, side) {
				switch x := v.(type) {
				case nil:
					row = append(row, "")
				case float64:
					row = append(row, strconv.FormatFloat(x, 'g', -1, 64))
				default:
					row = append(row, fmt.Sprint(x))
				}
			}
			for _, key := range keys {
				row = append(row, r.param(key))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

func sqlValue(v any) string {
	switch x := v.(type) {
	case nil:
		return "NULL"
	case string:
		return "'" + strings.ReplaceAll(x, "'", "''") + "'"
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}

func paramText(params []Param) string {
	var words []string
	for _, p := range params {
		words = append(words, p.Key+"="+p.Value)
	}
	return strings.Join(words, " ")
}

func numbers(x []float64) string {
	var words []string
	for _, v := range x {
		words = append(words, strconv.FormatFloat(v, 'g', -1, 64))
	}
	return strings.Join(words, " ")
}

// writeBenchfmt prints the Go benchmark format: configuration lines where they
// change, one line a sample, so that benchstat does its own statistics.
func writeBenchfmt(w io.Writer, records []Record) {
	last := map[string]string{}
	set := func(key, value string) {
		if value != "" && last[key] != value {
			last[key] = value
			fmt.Fprintf(w, "%s: %s\n", key, strings.ReplaceAll(value, "\n", " "))
		}
	}
	for i := range records {
		r := &records[i]
		set("commit", r.Provenance.Commit)
		set("host", r.Provenance.Host)
		set("device", r.Provenance.Device)
		if r.Model != nil {
			set("model", r.Model.Name+" "+r.Model.Type)
		}
		for s := range r.Sides {
			m := &r.Sides[s]
			name := "Benchmark" + title(r.Op)
			for _, p := range r.Params {
				name += "/" + p.Key + "=" + benchWord(p.Value)
			}
			if r.Lever != "" {
				name += "/side=" + benchWord(m.Name)
			}
			for _, sec := range m.Seconds {
				fmt.Fprintf(w, "%s 1 %s ns/op", name, strconv.FormatFloat(sec*1e9, 'f', 0, 64))
				if t := m.Work.Tokens; t > 0 {
					fmt.Fprintf(w, " %s tokens/s", strconv.FormatFloat(float64(t)/sec, 'f', 3, 64))
				}
				fmt.Fprintln(w)
			}
		}
	}
}

// title makes a word of a benchmark's name: "rms_norm" is "RmsNorm".
func title(op string) string {
	var b strings.Builder
	up := true
	for _, r := range op {
		switch {
		case r == '_' || unicode.IsSpace(r):
			up = true
		case up:
			b.WriteRune(unicode.ToUpper(r))
			up = false
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// benchWord leaves out what would end a name.
func benchWord(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '/' {
			return '_'
		}
		return r
	}, s)
}
