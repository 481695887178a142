package harness

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// RecordFile is what one file of records holds.
type RecordFile struct {
	Name    string
	Records []Record
}

// ReportFile is what one file of a report holds.
type ReportFile struct {
	Name   string
	Report *Report
}

// MergeRecords joins the records of a sweep's shards, in natural order of their
// keys. Files that are not shards of one run are an error (another commit, another
// model file, another command, a shard that is missing) unless force is set, which
// makes them warnings. The same scenario twice is always an error: one of the two
// would have to be dropped.
func MergeRecords(files []RecordFile, force bool) (records []Record, warnings []string, err error) {
	var parts []part
	from := map[string]string{}
	for _, f := range files {
		p := part{name: f.Name, models: map[string]string{}}
		for _, r := range f.Records {
			key := r.Key()
			if other, ok := from[key]; ok {
				return nil, nil, fmt.Errorf("%s is in %s and in %s: want each scenario once", key, other, f.Name)
			}
			from[key] = f.Name
			p.add(r.Provenance)
			if r.Model != nil {
				p.models[r.Model.Name+" "+r.Model.Type] = r.Model.SHA256
			}
			records = append(records, r)
		}
		parts = append(parts, p)
	}
	if warnings, err = together(parts, force); err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(records, func(a, b Record) int { return Natural(a.Key(), b.Key()) })
	return records, warnings, nil
}

// MergeReports joins the reports of a suite's shards likewise. The result's command
// is the one that would run all of it.
func MergeReports(files []ReportFile, force bool) (merged *Report, warnings []string, err error) {
	var parts []part
	from := map[string]string{}
	merged = &Report{}
	var hosts []string
	for i, f := range files {
		p := part{name: f.Name, models: map[string]string{}}
		p.add(f.Report.Provenance)
		if name, hash, ok := strings.Cut(f.Report.Provenance.Model, " "); ok {
			p.models[name] = hash
		}
		parts = append(parts, p)
		for _, r := range f.Report.Results {
			key := r.name(true) // one run may have a case on several devices
			if other, ok := from[key]; ok {
				return nil, nil, fmt.Errorf("%s is in %s and in %s: want each case once", key, other, f.Name)
			}
			from[key] = f.Name
		}
		merged.Selected += f.Report.Selected
		merged.Interrupted = merged.Interrupted || f.Report.Interrupted
		merged.Results = append(merged.Results, f.Report.Results...)
		prov := f.Report.Provenance
		if i == 0 {
			merged.Provenance = prov
			merged.Provenance.Command, _ = splitShard(prov.Command)
		}
		merged.Provenance.Date = min(merged.Provenance.Date, prov.Date)
		if !slices.Contains(hosts, prov.Host) {
			hosts = append(hosts, prov.Host)
		}
	}
	merged.Provenance.Host = strings.Join(hosts, "; ")
	if warnings, err = together(parts, force); err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(merged.Results, func(a, b Result) int { return Natural(a.Case, b.Case) })
	return merged, warnings, nil
}

// ReadReport reads what Report.Write wrote as json or jsonl. A report as lines does
// not say that its run was interrupted, but a case that was not reached says it.
func ReadReport(name string, data []byte) (*Report, error) {
	var keys map[string]json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&keys); err != nil {
		return nil, fmt.Errorf("%s: want a report as json or jsonl: %w", name, err)
	}
	r := &Report{}
	if _, whole := keys["provenance"]; whole {
		if err := DecodeJSON(data, r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	} else {
		dec := strictDecoder(data)
		if err := dec.Decode(&r.Provenance); err != nil {
			return nil, fmt.Errorf("%s: line 1: %w", name, err)
		}
		for line := 2; ; line++ {
			var res Result
			if err := dec.Decode(&res); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: line %d: %w", name, line, err)
			}
			r.Results = append(r.Results, res)
			r.Interrupted = r.Interrupted || res.Outcome == Skipped && res.Reason == "interrupted"
		}
		r.Selected = len(r.Results)
	}
	if r.Provenance.Commit == "" {
		return nil, fmt.Errorf("%s: no commit in its provenance: want a report of mverify", name)
	}
	if err := r.Provenance.valid(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i, res := range r.Results {
		if res.Case == "" {
			return nil, fmt.Errorf("%s: result %d names no case", name, i+1)
		}
	}
	return r, nil
}

// part is what together needs to know of a file.
type part struct {
	name                             string
	commits, devices, hosts, command []string
	shards                           []string
	models                           map[string]string // "name type" to SHA-256
}

func (p *part) add(prov Provenance) {
	put := func(list *[]string, v string) {
		if !slices.Contains(*list, v) {
			*list = append(*list, v)
		}
	}
	put(&p.commits, prov.Commit)
	put(&p.devices, prov.Device)
	put(&p.hosts, prov.Host)
	command, shard := splitShard(prov.Command)
	put(&p.command, command)
	if shard != "" {
		put(&p.shards, shard)
	}
}

// together checks that files are parts of one run.
func together(parts []part, force bool) (warnings []string, err error) {
	fault := func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		if force {
			warnings = append(warnings, line)
		} else if err == nil {
			err = fmt.Errorf("%s (--force joins them all the same)", line)
		}
	}
	mixed := func(what string, of func(*part) []string, report func(string, ...any)) {
		first, where := "", ""
		for i := range parts {
			for _, v := range of(&parts[i]) {
				switch {
				case where == "":
					first, where = v, parts[i].name
				case v != first:
					report("%s: %s in %s, %s in %s: want one", what, first, where, v, parts[i].name)
					return
				}
			}
		}
	}
	mixed("mixed commits", func(p *part) []string { return p.commits }, fault)
	seen := map[string][2]string{}
	for _, p := range parts {
		for _, model := range sortedKeys(p.models) {
			hash := p.models[model]
			if other, ok := seen[model]; ok && other[0] != hash {
				fault("mixed models: %s is %.12s in %s, %.12s in %s: want one file", model, other[0], other[1], hash, p.name)
			}
			seen[model] = [2]string{hash, p.name}
		}
	}
	mixed("mixed runs", func(p *part) []string { return p.command }, fault)
	for _, kind := range deviceKinds(parts) {
		mixed("mixed devices", func(p *part) []string {
			return slices.DeleteFunc(slices.Clone(p.devices), func(d string) bool { return kind != "" && firstWord(d) != kind })
		}, fault)
	}
	if missing := missingShards(parts); missing != "" {
		fault("%s", missing)
	}
	mixed("hosts", func(p *part) []string { return p.hosts }, func(format string, args ...any) {
		warnings = append(warnings, fmt.Sprintf("hosts: %d took part: times of different ones do not compare", countHosts(parts)))
	})
	return warnings, err
}

// deviceKinds are the kinds of device that a command names, each of which must be the
// same everywhere: "cpu (avx2)" in one part and "cpu (avx512)" in another are mixed.
// Where it names none, "" stands for all of them: what a machine has decides then.
func deviceKinds(parts []part) []string {
	kinds := []string{}
	for _, p := range parts {
		for _, c := range p.command {
			if !strings.Contains(c, " --device") {
				return []string{""}
			}
		}
		for _, d := range p.devices {
			if k := firstWord(d); !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
	}
	return kinds
}

func firstWord(s string) string { w, _, _ := strings.Cut(s, " "); return w }

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func countHosts(parts []part) int {
	hosts := map[string]bool{}
	for _, p := range parts {
		for _, h := range p.hosts {
			hosts[h] = true
		}
	}
	return len(hosts)
}

// missingShards names the parts of I/N that no file has, in a line, "" for none.
func missingShards(parts []part) string {
	have := map[int]bool{}
	count := 0
	for _, p := range parts {
		for _, s := range p.shards {
			var i, n int
			if _, err := fmt.Sscanf(s, "%d/%d", &i, &n); err != nil || n < 1 {
				return fmt.Sprintf("%s: shard %q: want I/N", p.name, s)
			}
			if count != 0 && n != count {
				return fmt.Sprintf("shards of %d and of %d: want one run's", count, n)
			}
			count = n
			have[i] = true
		}
	}
	var missing []string
	for i := 1; i <= count && len(have) < count; i++ {
		if !have[i] {
			if len(missing) == 8 {
				missing = append(missing, "...")
				break
			}
			missing = append(missing, fmt.Sprintf("%d/%d", i, count))
		}
	}
	if missing == nil {
		return ""
	}
	return "shards missing: " + strings.Join(missing, ", ")
}

var (
	shardFlag = regexp.MustCompile(` --shard(?: |=)(\S+)`)
	outFlag   = regexp.MustCompile(` --out(?: |=)('[^']*'|\S+)`)
)

// splitShard takes what is a shard's own out of a command.
func splitShard(command string) (whole, shard string) {
	if m := shardFlag.FindStringSubmatch(command); m != nil {
		shard = m[1]
	}
	return outFlag.ReplaceAllString(shardFlag.ReplaceAllString(command, ""), ""), shard
}

// Natural compares as people sort: runs of digits by their number.
func Natural(a, b string) int {
	for a != "" && b != "" {
		da, db := digits(a), digits(b)
		if da > 0 && db > 0 {
			x, y := strings.TrimLeft(a[:da], "0"), strings.TrimLeft(b[:db], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[da:], b[db:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func digits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}
