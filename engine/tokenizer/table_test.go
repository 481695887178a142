package tokenizer

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
)

// The tables find what was put in and nothing else, at any size.
func TestTables(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 5, 6, 12, 100, 3000} {
		list := make([]string, n)
		for i := range list {
			list[i] = strconv.Itoa(i * i)
		}
		if n > 2 {
			list[2] = "" // of no length, as any other
		}
		pairs := make([]merge, n) // that differ in one half only
		for i := range pairs {
			pairs[i].pair = pairOf(int32(i/7), int32(i%7))
		}
		texts, merges := newTexts(list), newMerges(pairs)
		require.GreaterOrEqual(t, 3*len(texts.slots), 4*n, "there is always an empty slot")
		require.Greater(t, len(texts.slots), n)
		for i := range n {
			_, dup := texts.add(int32(i))
			require.False(t, dup)
			_, dup = merges.add(i)
			require.False(t, dup)
		}
		for i, s := range list {
			id, ok := texts.find(s)
			require.True(t, ok)
			require.EqualValues(t, i, id)
			id, ok = texts.findBytes([]byte(s))
			require.True(t, ok)
			require.EqualValues(t, i, id)
			id, dup := texts.add(int32(i))
			require.True(t, dup)
			require.EqualValues(t, i, id)
			rank, ok := merges.find(pairOf(int32(i/7), int32(i%7)))
			require.True(t, ok)
			require.Equal(t, i, rank)
			rank, dup = merges.add(i)
			require.True(t, dup)
			require.Equal(t, i, rank)
			_, ok = texts.find(s + "x")
			require.False(t, ok)
			_, ok = merges.find(pairOf(int32(i%7), int32(n+i)))
			require.False(t, ok)
		}
	}
}

// Equal tags are no proof that texts are equal, nor pairs.
func TestTagIsNoProof(t *testing.T) {
	x := texts{list: []string{"a", "b"}, mask: 3, slots: []slot{{7, 1}, {7, 2}, {}, {}}}
	for text, want := range map[string]int32{"a": 0, "b": 1, "c": -1, "": -1} {
		id, ok := x.probe(7<<32, func(s string) bool { return s == text })
		require.Equal(t, want >= 0, ok, text)
		require.Equal(t, max(want, 0), id, text)
	}
	m := newMerges([]merge{{pairOf(1, 2), 3}, {pairOf(4, 5), 6}})
	m.add(0)
	m.add(1)
	for _, other := range []pair{pairOf(2, 1), pairOf(1, 5), pairOf(4, 2)} {
		h := m.hash(other)
		for i := range m.slots {
			if m.slots[i].id > 0 {
				m.slots[i].hash = uint32(h >> 32)
			}
		}
		_, ok := m.find(other)
		require.False(t, ok)
	}
}

// Merges need not be in the order of the tokens that they make.
func TestMergesInAnyOrder(t *testing.T) {
	f := tinyVocab("qwen2")
	want, err := New(f)
	require.NoError(t, err)
	merges := f.KVs[4].Value.([]string)
	for i, s := range merges {
		left, right := want.merges.list[i].pair>>32, want.merges.list[i].pair&0xffffffff
		require.Equal(t, s, want.text[left]+" "+want.text[right])
		require.Equal(t, want.text[left]+want.text[right], want.text[want.merges.list[i].token], s)
	}
	// The same file with its last tokens the other way round.
	tokens := append([]string(nil), f.KVs[2].Value.([]string)...)
	tokens[256], tokens[257] = tokens[257], tokens[256]
	got, err := New(tinyVocab("qwen2", gguf.KV{Key: f.KVs[2].Key, Value: tokens}))
	require.NoError(t, err)
	for i := range merges {
		require.Equal(t, want.text[want.merges.list[i].token], got.text[got.merges.list[i].token], merges[i])
	}
}

// What a vocabulary costs is a few tables and not an object a token.
func TestNewAllocations(t *testing.T) {
	kvs := tinyVocab("qwen2").KVs
	tokens := append([]string(nil), kvs[2].Value.([]string)...)
	merges := append([]string(nil), kvs[4].Value.([]string)...)
	types := append([]int32(nil), kvs[3].Value.([]int32)...)
	for c := 'a'; c <= 'z'; c++ {
		for d := 'A'; d <= 'Z'; d++ {
			tokens, merges, types = append(tokens, string([]rune{c, d})), append(merges, string([]rune{c, ' ', d})), append(types, typeNormal)
		}
	}
	f := tinyVocab("qwen2", gguf.KV{Key: kvs[2].Key, Value: tokens}, gguf.KV{Key: kvs[3].Key, Value: types}, gguf.KV{Key: kvs[4].Key, Value: merges})
	n := testing.AllocsPerRun(5, func() {
		if _, err := New(f); err != nil {
			t.Error(err)
		}
	})
	require.Less(t, n, 100.0, "for %d tokens and %d merges", len(tokens), len(merges))
}

// Of several merges that are wrong the first is named, however many look for them.
func TestFirstWrongMerge(t *testing.T) {
	kvs := tinyVocab("qwen2").KVs
	tokens, types := append([]string(nil), kvs[2].Value.([]string)...), append([]int32(nil), kvs[3].Value.([]int32)...)
	var merges []string
	for c := rune(0x4e00); len(merges) < 3*minMerges; c++ { // with "a", and that with "b"
		for _, s := range []string{string(c), "a" + string(c), "a" + string(c) + "b"} {
			if s != "中" {
				tokens, types = append(tokens, s), append(types, typeNormal)
			}
		}
		merges = append(merges, "a "+string(c), "a"+string(c)+" b")
	}
	try := func(n int, wrong map[int]string) error {
		list := append([]string(nil), merges[:n]...)
		for i, s := range wrong {
			list[i] = s
		}
		_, err := New(tinyVocab("qwen2", gguf.KV{Key: kvs[2].Key, Value: tokens}, gguf.KV{Key: kvs[3].Key, Value: types}, gguf.KV{Key: kvs[4].Key, Value: list}))
		return err
	}
	last := len(merges) - 1
	for _, n := range []int{0, 1, minMerges - 1, minMerges, minMerges + 1, last + 1} {
		require.NoError(t, try(n, nil))
	}
	const prefix = "tokenizer: tiny.gguf: tokenizer.ggml.merges: merge "
	require.EqualError(t, try(last+1, map[int]string{last: "a zz"}), prefix+strconv.Itoa(last)+` is "a zz": "zz" is not a token`)
	require.EqualError(t, try(last+1, map[int]string{last: "a zz", last - 1: "zz a", 5000: "aa"}), prefix+`5000 is "aa": want two tokens with a space between them`)
	require.EqualError(t, try(last+1, map[int]string{last: "a zz", last - 1: merges[2]}), prefix+strconv.Itoa(last-1)+` is "a `+"\u4e01"+`", as merge 2 is: want distinct merges`)
	require.EqualError(t, try(last+1, map[int]string{9: "a zz", 10: merges[2]}), prefix+`9 is "a zz": "zz" is not a token`)
	require.EqualError(t, try(last+1, map[int]string{10: "a zz", 9: merges[2]}), prefix+`9 is "a `+"\u4e01"+`", as merge 2 is: want distinct merges`)
}
