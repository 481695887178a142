package cli

import (
	"path/filepath"
	"strings"

	"minfer/engine/gguf"
	"minfer/refs/models"
	"minfer/suites"
)

// Models gives the file at path, or the embedded models when path is "".
func Models(path string) []suites.Model {
	if path != "" {
		name := strings.TrimSuffix(filepath.Base(path), ".gguf")
		return []suites.Model{{Name: name, Path: path, Open: func() (*gguf.File, error) { return gguf.Open(path) }}}
	}
	var list []suites.Model
	for _, name := range models.Names() {
		list = append(list, suites.Model{Name: name, Open: func() (*gguf.File, error) { return models.Open(name) }})
	}
	return list
}

// OpenModel opens the file at path, or the default embedded model when path is
// "".
func OpenModel(path string) (*gguf.File, error) {
	if path == "" {
		return models.Open(models.Default)
	}
	return gguf.Open(path)
}
