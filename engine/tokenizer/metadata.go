package tokenizer

import (
	"fmt"
	"reflect"

	"minfer/engine/gguf"
)

// metadata is a file's list of keys, which any program may have written: the
// getters check every type.
type metadata []gguf.KV

func (m metadata) lookup(key string) (any, bool) {
	for _, kv := range m {
		if kv.Key == key {
			return kv.Value, true
		}
	}
	return nil, false
}

// getString gives "" and false for an absent key.
func getString(m metadata, key string) (string, bool, error) {
	v, ok := m.lookup(key)
	if !ok {
		return "", false, nil
	}
	s, isString := v.(string)
	if !isString {
		return "", false, fmt.Errorf("%s is %s: want a string", key, describe(v))
	}
	return s, true, nil
}

// getStrings wants the key to be there.
func getStrings(m metadata, key string) ([]string, error) {
	v, ok := m.lookup(key)
	if !ok {
		return nil, fmt.Errorf("key %s is missing: want a list of strings", key)
	}
	s, isStrings := v.([]string)
	if !isStrings {
		return nil, fmt.Errorf("%s is %s: want a list of strings", key, describe(v))
	}
	return s, nil
}

// getID stores the id of a token, of any integer type, if the key is there.
func getID(m metadata, key string, size int, id *int32) error {
	v, ok := m.lookup(key)
	if !ok {
		return nil
	}
	n := uint64(0)
	switch r := reflect.ValueOf(v); {
	case r.CanUint():
		n = r.Uint()
	case r.CanInt():
		n = uint64(r.Int()) // a negative id is out of range too
	default:
		return fmt.Errorf("%s is %s: want a token id", key, describe(v))
	}
	if n >= uint64(size) {
		return fmt.Errorf("%s is %v: want 0 to %d, the ids of the vocabulary", key, v, size-1)
	}
	*id = int32(n)
	return nil
}

// length gives the number of elements of a list.
func length(v any) (int, bool) {
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Slice {
		return 0, false
	}
	return r.Len(), true
}

// describe says what a value is, shortly.
func describe(v any) string {
	if n, ok := length(v); ok {
		return fmt.Sprintf("%d values of type %T", n, v)
	}
	if s, ok := v.(string); ok && len(s) > 40 {
		v = s[:40] + "..."
	}
	return fmt.Sprintf("%#v of type %T", v, v)
}
