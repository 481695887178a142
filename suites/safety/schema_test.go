package safety

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// jsonSchema checks values against the part of JSON Schema that schema.json uses.
// A keyword that it does not know is an error, so that none is passed over.
type jsonSchema struct{ root map[string]any }

func readSchema(t *testing.T) *jsonSchema {
	s := &jsonSchema{}
	require.NoError(t, json.Unmarshal(Schema(), &s.root))
	return s
}

func (s *jsonSchema) check(v any) error { return s.at(s.root, v, "") }

func (s *jsonSchema) at(schema map[string]any, v any, path string) error {
	bad := func(format string, a ...any) error { return fmt.Errorf("%s: %s", path, fmt.Sprintf(format, a...)) }
	for keyword, arg := range schema {
		switch keyword {
		case "$schema", "$defs", "title", "description", "properties":
		case "$ref":
			name := strings.TrimPrefix(arg.(string), "#/$defs/")
			def, ok := s.root["$defs"].(map[string]any)[name].(map[string]any)
			if !ok {
				return bad("no definition %v", arg)
			}
			if err := s.at(def, v, path); err != nil {
				return err
			}
		case "type":
			if !hasType(v, arg.(string)) {
				return bad("%v is no %v", v, arg)
			}
		case "enum":
			found := false
			for _, e := range arg.([]any) {
				found = found || reflect.DeepEqual(e, v)
			}
			if !found {
				return bad("%v is none of %v", v, arg)
			}
		case "const":
			if !reflect.DeepEqual(arg, v) {
				return bad("%v is not %v", v, arg)
			}
		case "oneOf":
			n := 0
			for _, e := range arg.([]any) {
				if s.at(e.(map[string]any), v, path) == nil {
					n++
				}
			}
			if n != 1 {
				return bad("%d of the alternatives fit", n)
			}
		case "required":
			if o, ok := v.(map[string]any); ok {
				for _, k := range arg.([]any) {
					if _, ok := o[k.(string)]; !ok {
						return bad("no key %v", k)
					}
				}
			}
		case "additionalProperties":
			o, ok := v.(map[string]any)
			if !ok {
				continue
			}
			known, _ := schema["properties"].(map[string]any)
			for k, e := range o {
				if p, ok := known[k].(map[string]any); ok {
					if err := s.at(p, e, path+"."+k); err != nil {
						return err
					}
				} else if other, ok := arg.(map[string]any); ok {
					if err := s.at(other, e, path+"."+k); err != nil {
						return err
					}
				} else {
					return bad("unknown key %s", k)
				}
			}
		case "items":
			if l, ok := v.([]any); ok {
				for i, e := range l {
					if err := s.at(arg.(map[string]any), e, fmt.Sprintf("%s[%d]", path, i)); err != nil {
						return err
					}
				}
			}
		case "minItems", "maxItems":
			if l, ok := v.([]any); ok && (keyword == "minItems") == (float64(len(l)) < arg.(float64)) && float64(len(l)) != arg.(float64) {
				return bad("%d items", len(l))
			}
		case "minimum", "maximum":
			if x, ok := v.(float64); ok && (keyword == "minimum") == (x < arg.(float64)) && x != arg.(float64) {
				return bad("%v: %s %v", x, keyword, arg)
			}
		case "minLength":
			if x, ok := v.(string); ok && float64(len(x)) < arg.(float64) {
				return bad("%q is too short", x)
			}
		default:
			return bad("keyword %s is not known here", keyword)
		}
	}
	return nil
}

func hasType(v any, name string) bool {
	switch x := v.(type) {
	case map[string]any:
		return name == "object"
	case []any:
		return name == "array"
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case float64:
		return name == "number" || name == "integer" && x == math.Trunc(x)
	}
	return false
}

// The checker itself tells right from wrong.
func TestSchemaChecker(t *testing.T) {
	s := readSchema(t)
	for text, ok := range map[string]bool{
		`{"source": "a", "buffers": {}, "dispatches": [{"kernel": "f", "threadgroups": [1], "threads_per_threadgroup": [1]}]}`:             true,
		`{"source": "a", "buffers": {}, "dispatches": []}`:                                                                                 false,
		`{"source": "a", "buffers": {"x": {"type": "int8", "count": 1}}, "dispatches": [{"kernel": "f"}]}`:                                 false,
		`{"source": "a", "buffers": {}, "dispatches": [{"kernel": "f", "threadgroups": [1], "threads_per_threadgroup": [2147483648]}]}`:    false,
		`{"source": "a", "buffers": {}, "dispatches": [{"kernel": "f", "threadgroups": [], "threads_per_threadgroup": [1]}]}`:              false,
		`{"source": "a", "buffers": {}, "dispatches": [{"kernel": "f", "threadgroups": [1, 1, 1, 1], "threads_per_threadgroup": [1]}]}`:    false,
		`{"source": "a", "buffers": {}, "dispatches": [{"kernel": "f", "threadgroups": [1], "threads_per_threadgroup": [1]}], "extra": 1}`: false,
	} {
		err := s.check(decode(t, text))
		require.Equal(t, ok, err == nil, "%s: %v", text, err)
	}
}
