package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"reflect"
	"regexp"
	"strconv"
)

// A model in several parts follows llama.cpp's convention: the parts are files
// PREFIX-00001-of-0000N.gguf, each a GGUF file with tensors of its own (the
// first may have none) and the keys split.no (from 0), split.count and
// split.tensors.count (of all parts together); the other metadata is in the
// first. A general.alignment is each part's own.

var splitPattern = regexp.MustCompile(`(?s)^(.+)-([0-9]{5})-of-([0-9]{5})\.gguf$`)

// splitName takes a part's path apart. no counts from 0, the name from 1.
func splitName(path string) (prefix string, no, count int, ok bool) {
	m := splitPattern.FindStringSubmatch(path)
	if m == nil {
		return "", 0, 0, false
	}
	no, _ = strconv.Atoi(m[2]) // five digits
	count, _ = strconv.Atoi(m[3])
	if no < 1 || no > count {
		return "", 0, 0, false
	}
	return m[1], no - 1, count, true
}

// splitPath is the path of part no (from 0) of count.
func splitPath(prefix string, no, count int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, no+1, count)
}

// load reads the first part, finds out how many there are, and joins the rest.
// given is the number of parts in memory, 0 when parts are files, whose names
// then count too.
func load(path string, given int, source func(i int, path string) ([]byte, error)) (*File, error) {
	data, err := source(0, path)
	if err != nil {
		return nil, err
	}
	first, err := parse(path, data)
	if err != nil {
		return nil, err
	}
	paths, err := partPaths(first, path, given)
	if err != nil {
		return nil, err
	}
	f := &File{
		Path: path, Version: first.version, Alignment: first.alignment,
		KVs: first.kvs, kv: first.kv, index: map[string]int{},
	}
	for i, p := range paths {
		part := first
		if i > 0 {
			data, err := source(i, p)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("gguf: %s: part %d of %d is missing: want %s", path, i+1, len(paths), p)
			}
			if err != nil {
				return nil, err
			}
			if part, err = parse(p, data); err != nil {
				return nil, err
			}
			if err := part.follows(first, i, len(paths)); err != nil {
				return nil, err
			}
		}
		f.Parts = append(f.Parts, Part{Path: p, Data: part.data})
		for j, t := range part.tensors {
			if k, twice := f.index[t.Name]; twice {
				return nil, part.errorf(part.tensorOffs[j], "tensor %q is in part %d already: want every name once", t.Name, f.Tensors[k].Part+1)
			}
			t.Part = i
			f.index[t.Name] = len(f.Tensors)
			f.Tensors = append(f.Tensors, t)
		}
	}
	// A merged file keeps these keys with a split.count of 0.
	if n, ok, err := first.number(keySplitTensors); err != nil {
		return nil, err
	} else if count, _, _ := first.number(keySplitCount); ok && count > 0 && n != int64(len(f.Tensors)) {
		return nil, first.errorf(first.kvOffs[first.kv[keySplitTensors]], "key %q: %d tensors, found %d in %s", keySplitTensors, n, len(f.Tensors), plural(len(paths), "part"))
	}
	return f, nil
}

// partPaths lists the files of the model whose first part has been read.
func partPaths(first *part, path string, given int) ([]string, error) {
	no, _, err := first.number(keySplitNo)
	if err != nil {
		return nil, err
	}
	n, _, err := first.number(keySplitCount)
	if err != nil {
		return nil, err
	}
	if n < 0 || n > math.MaxUint16 {
		return nil, first.errorf(first.kvOffs[first.kv[keySplitCount]], "key %q: found %d parts, want at most %d", keySplitCount, n, math.MaxUint16)
	}
	count := max(1, int(n))
	prefix, nameNo, nameCount, named := splitName(path)
	if no != 0 {
		what := fmt.Sprintf("key %q: found %d, so this is part %d of %d", keySplitNo, no, no+1, count)
		switch {
		case named && nameNo != int(no):
			what += fmt.Sprintf(", but the name says part %d of %d", nameNo+1, nameCount)
		case named:
			what += ": open the first part, " + splitPath(prefix, 0, nameCount)
		default:
			what += ": open the first part"
		}
		return nil, first.errorf(first.kvOffs[first.kv[keySplitNo]], "%s", what)
	}
	if given > 0 {
		if given != count {
			return nil, fmt.Errorf("gguf: %s: %s given, want %d (key %q)", path, plural(given, "part"), count, keySplitCount)
		}
		paths := []string{path}
		for i := 1; i < count; i++ {
			if named {
				paths = append(paths, splitPath(prefix, i, count))
			} else {
				paths = append(paths, fmt.Sprintf("%s[part %d]", path, i+1))
			}
		}
		return paths, nil
	}
	switch {
	case named && nameNo != 0:
		return nil, fmt.Errorf("gguf: %s: the name says part %d of %d: open the first part, %s", path, nameNo+1, nameCount, splitPath(prefix, 0, nameCount))
	case named && nameCount != count:
		return nil, fmt.Errorf("gguf: %s: the name says %s, the file says %d (key %q, 1 without it)", path, plural(nameCount, "part"), count, keySplitCount)
	case count == 1:
		return []string{path}, nil
	case !named:
		return nil, fmt.Errorf("gguf: %s: key %q says %d parts, but the name leads to no other: want PREFIX-00001-of-%05d.gguf", path, keySplitCount, count, count)
	}
	paths := make([]string, count)
	for i := range paths {
		paths[i] = splitPath(prefix, i, count)
	}
	return paths, nil
}

// follows checks that p is part number i (from 0) of the model that first begins.
func (p *part) follows(first *part, i, count int) error {
	for _, want := range []struct {
		key   string
		value int
	}{{keySplitNo, i}, {keySplitCount, count}} {
		n, ok, err := p.number(want.key)
		if err != nil {
			return err
		}
		if !ok {
			return p.errorf(8, "no key %q: want %d, since this is part %d of %d", want.key, want.value, i+1, count)
		}
		if n != int64(want.value) {
			return p.errorf(p.kvOffs[p.kv[want.key]], "key %q: found %d, want %d, since this is part %d of %d", want.key, n, want.value, i+1, count)
		}
	}
	// Metadata belongs to the first part. A copy does no harm; anything else
	// would be dropped without a word.
	for j, kv := range p.kvs {
		if kv.Key == keySplitNo || kv.Key == keyAlignment {
			continue
		}
		k, ok := first.kv[kv.Key]
		if !ok || !reflect.DeepEqual(kv.Value, first.kvs[k].Value) {
			return p.errorf(p.kvOffs[j], "key %q differs from the first part: want metadata in the first part only", kv.Key)
		}
	}
	return nil
}
