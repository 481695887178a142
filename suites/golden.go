package suites

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
)

// WriteGolden writes a JSON object with one case a line, in order, so that it
// reads and diffs by case. A file that would not change is left alone.
func WriteGolden[T any](path string, all map[string]T) (changed bool, err error) {
	data := []byte("{")
	for i, key := range slices.Sorted(maps.Keys(all)) {
		if i > 0 {
			data = append(data, ',')
		}
		k, err := json.Marshal(key)
		if err != nil {
			return false, err
		}
		v, err := json.Marshal(all[key])
		if err != nil {
			return false, err
		}
		data = append(append(append(append(data, '\n'), k...), ": "...), v...)
	}
	data = append(data, "\n}\n"...)
	if old, err := os.ReadFile(path); err == nil && string(old) == string(data) {
		return false, nil
	}
	return true, os.WriteFile(path, data, 0o644)
}
