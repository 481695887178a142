package suites

import (
	"fmt"
	"os"
	"path/filepath"

	"minfer/engine/gguf"
	"minfer/engine/quant"
)

// ModelFile gives a model as a file with its matrices in a mix of engine/quant
// ("f16" and "" leave the file as it is), made in Temp at the first call.
func (e *Env) ModelFile(m Model, mix string) (string, error) {
	path, err := e.original(m)
	if err != nil || mix == "" || mix == "f16" {
		return path, err
	}
	target := filepath.Join(e.Temp, fmt.Sprintf("%s.%s.gguf", m.Name, mix))
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	f, err := gguf.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	parsed, err := quant.ParseMix(mix)
	if err != nil {
		return "", err
	}
	return target, quant.File(target, f, parsed, quant.Options{})
}

// original is the model's own file; an embedded one is written to Temp.
func (e *Env) original(m Model) (string, error) {
	if m.Path != "" {
		return m.Path, nil
	}
	path := filepath.Join(e.Temp, m.Name+".gguf")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	f, err := m.Open()
	if err != nil {
		return "", err
	}
	defer f.Close()
	return path, os.WriteFile(path, f.Parts[0].Data, 0o644)
}
