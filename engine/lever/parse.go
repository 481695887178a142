package lever

import (
	"fmt"
	"slices"
	"strings"
)

// prefix is that of every setting of ours.
const prefix = "MINFER_"

// Default is the value of an empty environment.
func Default() Levers {
	var l Levers
	for _, v := range All {
		if v.Default != "" {
			v.set(&l, v.Default)
		}
	}
	return l
}

// Find looks a setting up by its full name.
func Find(name string) (Lever, bool) {
	i := slices.IndexFunc(All, func(v Lever) bool { return v.Name == name })
	if i < 0 {
		return Lever{}, false
	}
	return All[i], true
}

// Parse reads the settings from an environment in the form of os.Environ. An
// empty value counts as unset; of two entries of one name the last counts, as it
// does for a process. The error names the setting, the value and the allowed
// values, or, for a name that begins with MINFER_ and is no setting, the nearest
// one.
func Parse(environ []string) (Levers, error) {
	values := map[string]string{}
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || !strings.HasPrefix(name, prefix) {
			continue
		}
		if _, known := Find(name); !known {
			return Default(), fmt.Errorf("unknown setting %s: did you mean %s?", clip(name), nearest(name))
		}
		values[name] = value
	}
	l := Default()
	for _, v := range All {
		value := values[v.Name]
		if value == "" {
			continue
		}
		if err := v.check(value); err != nil {
			return Default(), err
		}
		v.set(&l, value)
	}
	return l, nil
}

// check says whether the value is allowed.
func (v Lever) check(value string) error {
	switch {
	case v.Values != nil && !slices.Contains(v.Values, value):
		return fmt.Errorf("%s=%s: want %s", v.Name, clip(value), list(v.Values))
	case value == "" || strings.ContainsRune(value, 0):
		return fmt.Errorf("%s=%s: want %s", v.Name, clip(value), v.Form)
	}
	return nil
}

// list is "a, b or c", or "1 to 16" for a run of numbers.
func list(values []string) string {
	if n := len(values); n > 3 {
		return values[0] + " to " + values[n-1]
	}
	last := len(values) - 1
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

// clip quotes what is not plain and cuts what is long, so that an error stays
// one readable line.
func clip(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "..."
	}
	for _, r := range s {
		if r <= ' ' || r > '~' {
			return fmt.Sprintf("%q", s)
		}
	}
	if s == "" {
		return `""`
	}
	return s
}

// nearest is the setting with the smallest edit distance to the name; the first
// of the table among equals.
func nearest(name string) string {
	// Past any real name's length, distance is no longer what one means.
	if len(name) > 2*len("MINFER_NO_PREFILL_FLASH") {
		name = name[:2*len("MINFER_NO_PREFILL_FLASH")]
	}
	best, found := 1<<30, ""
	for _, v := range All {
		if d := distance(strings.ToUpper(name), v.Name); d < best {
			best, found = d, v.Name
		}
	}
	return found
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
