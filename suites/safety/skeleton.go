package safety

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"minfer/metal/mtl"
)

// skeletonElements is the number of elements of a skeleton's buffers.
const skeletonElements = 1024

// Skeleton writes a launch case for some kernels of a library, one dispatch
// each: every argument with its type, buffers of 1024 elements, read-only ones
// random, the others poison and marked as outputs. The sizes are guesses for the
// user to correct.
func Skeleton(source string, lib mtl.Library, kernels []string) ([]byte, error) {
	constants := map[string]any{}
	for _, k := range lib.Constants() {
		constants[k.Name] = zeroConstant(k)
	}
	var dispatches, buffers []string
	for _, name := range kernels {
		p, err := lib.Pipeline(name, constants)
		if err != nil {
			return nil, fmt.Errorf("kernel %s: %w", name, err)
		}
		prefix := ""
		if len(kernels) > 1 {
			prefix = name + "_"
		}
		d, b := skeletonDispatch(p, prefix, constants)
		dispatches, buffers = append(dispatches, d), append(buffers, b...)
		p.Release()
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\n  \"source\": %s,\n", quote(source))
	fmt.Fprintf(&out, "  \"about\": \"\",\n  \"mode\": \"strict\",\n")
	fmt.Fprintf(&out, "  \"dispatches\": [\n    %s\n  ],\n", strings.Join(dispatches, ",\n    "))
	fmt.Fprintf(&out, "  \"buffers\": {\n    %s\n  },\n", strings.Join(buffers, ",\n    "))
	fmt.Fprintf(&out, "  \"expect\": \"clean\"\n}\n")
	return out.Bytes(), nil
}

func skeletonDispatch(p mtl.Pipeline, prefix string, constants map[string]any) (dispatch string, buffers []string) {
	byIndex := map[int]mtl.Argument{}
	threadgroup := map[int]mtl.Argument{}
	last, lastGroup := -1, -1
	for _, a := range p.Arguments() {
		if a.Threadgroup {
			threadgroup[a.Index] = a
			lastGroup = max(lastGroup, a.Index)
		} else {
			byIndex[a.Index] = a
			last = max(last, a.Index)
		}
	}
	var args []string
	for i := 0; i <= last; i++ {
		a, ok := byIndex[i]
		switch {
		case !ok: // an index that this specialisation does not use still has its place
			args = append(args, `{"bytes": "uint8", "values": [0]}`)
		case a.Ref && a.ElemSize > 0 && a.ElemSize <= mtl.MaxInlineBytes && a.ReadOnly:
			t := elemType(a)
			zero := "0"
			if t == mtl.Bool {
				zero = "false"
			}
			n := a.ElemSize / t.Size()
			args = append(args, fmt.Sprintf(`{"bytes": %q, "values": [%s]}`, t, strings.Repeat(zero+", ", n-1)+zero))
		default:
			name := prefix + a.Name
			if a.Name == "" {
				name = fmt.Sprintf("%sbuffer%d", prefix, i)
			}
			args = append(args, fmt.Sprintf(`{"buffer": %s}`, quote(name)))
			t := elemType(a)
			count := skeletonElements * max(1, a.ElemSize/t.Size())
			init := `"init": "random", "seed": ` + fmt.Sprint(i+1)
			if !a.ReadOnly {
				init = `"init": "poison", "output": true`
			}
			buffers = append(buffers, fmt.Sprintf(`%s: {"type": %q, "count": %d, %s}`, quote(name), t, count, init))
		}
	}
	for i := 0; i <= lastGroup; i++ {
		args = append(args, fmt.Sprintf(`{"threadgroup_bytes": %d}`, max(4096, (threadgroup[i].ElemSize+15)/16*16)))
	}
	threads := min(32, p.MaxThreadsPerThreadgroup())
	var b strings.Builder
	fmt.Fprintf(&b, `{"kernel": %s, "threadgroups": [%d, 1, 1], "threads_per_threadgroup": [%d, 1, 1],`, quote(p.Kernel()), max(1, skeletonElements/threads), threads)
	fmt.Fprintf(&b, "\n     \"args\": [%s],", strings.Join(args, ", "))
	if len(constants) > 0 {
		data, err := json.Marshal(constants) // in the order of names
		if err == nil {
			fmt.Fprintf(&b, "\n     \"constants\": %s,", data)
		}
	}
	b.WriteString("\n     \"barrier_after\": true}")
	return b.String(), buffers
}

func zeroConstant(k mtl.Constant) any {
	var zero any = int64(0)
	if k.Type == mtl.Bool {
		zero = false
	} else if k.Type.Float() {
		zero = float64(0)
	}
	if k.Count <= 1 {
		return zero
	}
	all := make([]any, k.Count)
	for i := range all {
		all[i] = zero
	}
	return all
}

// signedElem matches the spelling of signed integer types and vectors of them.
var signedElem = regexp.MustCompile(`^(?:packed_)?(char|short|int|long|int8_t|int16_t|int32_t|int64_t|ptrdiff_t)[234]?$`)

// elemType is the scalar type of an argument's elements; bytes for a struct.
func elemType(a mtl.Argument) mtl.Type {
	t := a.Scalar
	if t == mtl.AnyType || t.Size() == 0 || a.ElemSize%t.Size() != 0 {
		return mtl.Uint8
	}
	if signedElem.MatchString(a.Elem) {
		switch t {
		case mtl.Uint8:
			return mtl.Int8
		case mtl.Uint16:
			return mtl.Int16
		case mtl.Uint32:
			return mtl.Int32
		case mtl.Uint64:
			return mtl.Int64
		}
	}
	return t
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}
