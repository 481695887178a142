package graph

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"minfer/engine/gguf"
)

// A TraceRun is what ExecOptions.TraceDir leaves of one run: two files named by
// the run's number from 1 on, in six digits at least. 000001.json is this struct;
// 000001.f32 holds the data of all Values, one after the other, as little-endian
// float32. A run that failed has the values of the splits before, and its error.
type TraceRun struct {
	Run    int                `json:"run"`
	Error  string             `json:"error,omitempty"`
	Inputs map[string][]int32 `json:"inputs"` // the I32 inputs by name: ids and positions
	Values []TraceValue       `json:"values"` // in the order of nodes
}

// A TraceValue is one value of a run, chosen and named as a Tap sees it, without
// what backends show of the inside of a node.
type TraceValue struct {
	Node    int       `json:"node"` // ID after fusion
	Name    string    `json:"name"`
	Op      string    `json:"op"`
	Layer   int       `json:"layer"`
	Part    string    `json:"part,omitempty"`
	Backend string    `json:"backend"`
	Split   int       `json:"split"`
	Shape   Shape     `json:"shape"`
	Offset  int64     `json:"offset"` // in the .f32 file, in values
	Data    []float32 `json:"-"`      // Shape.Elements() of them
}

func tracePath(dir string, run int, ext string) string {
	return filepath.Join(dir, fmt.Sprintf("%06d.%s", run, ext))
}

// ReadTrace reads what run number run of an executor has left in dir.
func ReadTrace(dir string, run int) (*TraceRun, error) {
	path := tracePath(dir, run, "json")
	index, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("graph: trace: %w", err)
	}
	t := &TraceRun{}
	if err := json.Unmarshal(index, t); err != nil {
		return nil, fmt.Errorf("graph: trace: %s: %w", path, err)
	}
	path = tracePath(dir, run, "f32")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("graph: trace: %w", err)
	}
	at := int64(0)
	for i := range t.Values {
		v := &t.Values[i]
		n := int64(1)
		for _, d := range v.Shape {
			if d < 1 || int64(d) > int64(len(data)) || n*int64(d) > int64(len(data)) {
				return nil, fmt.Errorf("graph: trace: %s: %q has shape %v, the file has %d bytes", path, v.Name, v.Shape, len(data))
			}
			n *= int64(d)
		}
		if v.Offset != at || 4*(at+n) > int64(len(data)) {
			return nil, fmt.Errorf("graph: trace: %s: %q is values %d+%d, want them from %d on within %d bytes", path, v.Name, v.Offset, n, at, len(data))
		}
		v.Data = make([]float32, n)
		copy(floatBytes(v.Data), data[4*at:])
		at += n
	}
	if 4*at != int64(len(data)) {
		return nil, fmt.Errorf("graph: trace: %s: %d bytes, want %d for the values of the index", path, len(data), 4*at)
	}
	return t, nil
}

// traceWriter records one run.
type traceWriter struct {
	TraceRun
	dir  string
	file *os.File
	out  *bufio.Writer
	next int64 // offset of the next value
}

// startTrace opens the files of a run, nil where none is asked for.
func (p *Plan) startTrace(in map[string][]byte) (*traceWriter, error) {
	dir := p.exec.opt.TraceDir
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("graph: trace: %w", err)
	}
	p.exec.traced++
	f, err := os.Create(tracePath(dir, p.exec.traced, "f32"))
	if err != nil {
		return nil, fmt.Errorf("graph: trace: %w", err)
	}
	t := &traceWriter{dir: dir, file: f, out: bufio.NewWriterSize(f, 1<<16)}
	t.Run, t.Inputs = p.exec.traced, map[string][]int32{}
	for _, x := range p.inputs {
		if x.node.Type != gguf.I32 {
			continue
		}
		data := in[x.node.Name]
		ids := make([]int32, len(data)/4)
		for i := range ids {
			ids[i] = int32(binary.LittleEndian.Uint32(data[4*i:]))
		}
		t.Inputs[x.node.Name] = ids
	}
	return t, nil
}

// traceSplit records the values of a split that has been encoded as a whole: it
// waits for the backend once, and since no buffer is shared (TraceDir implies
// NoReuse) each value is still there.
func (p *Plan) traceSplit(t *traceWriter, split int, in map[string][]byte) error {
	s := p.Assignment.Splits[split]
	if err := p.synchronize(s.Backend); err != nil {
		return err
	}
	for id := s.First; id <= s.Last; id++ {
		n := p.Graph.Nodes[id]
		err := p.observe(&p.steps[id], in, func(part string, data []float32, dims Shape) error {
			t.Values = append(t.Values, TraceValue{
				Node: id, Name: n.Name, Op: n.Op.String(), Layer: n.Layer, Part: part,
				Backend: p.backendOf(n).Name(), Split: split, Shape: dims, Offset: t.next,
			})
			t.next += int64(len(data))
			_, err := t.out.Write(floatBytes(data))
			return err
		})
		if err != nil {
			return fmt.Errorf("graph: trace: %w", err)
		}
	}
	return nil
}

// close writes the index, with the error of the run if it has one.
func (t *traceWriter) close(run error) error {
	if run != nil {
		t.Error = run.Error()
	}
	err := t.out.Flush()
	if cerr := t.file.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		var index []byte
		if index, err = json.MarshalIndent(&t.TraceRun, "", " "); err == nil {
			err = os.WriteFile(tracePath(t.dir, t.Run, "json"), append(index, '\n'), 0o666)
		}
	}
	if run != nil || err == nil {
		return run
	}
	return fmt.Errorf("graph: trace: %w", err)
}
