package tokenizer

import (
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
)

// A vocabulary is hundreds of thousands of tokens and merges, and reading it is a
// good part of a program's start. The two tables of this file take a third of the
// time and a quarter of the memory of Go's maps: their size is known from the start,
// keys stay where they are already (the texts by id, the pairs by rank), and nothing
// in them is a pointer. Hashes are seeded anew for each table, so that no file can
// make all of its keys collide.

// texts finds ids by text: open addressing with linear probing, at most three
// quarters full.
type texts struct {
	list  []string // by id
	seed  maphash.Seed
	mask  uint64
	slots []slot
}

// A slot is the upper half of a key's hash, which tells nearly all other keys apart
// without a look at them, and its id plus one; 0 is empty.
type slot struct{ hash, id uint32 }

// newSlots makes a power of two of them, of which n are at most three quarters.
func newSlots(n int) []slot {
	slots := make([]slot, 1<<bits.Len(uint(n+n/3)))
	// New memory is zero without being there. Where it is read first and written later,
	// as slots are, it is mapped twice, the second time with an interrupt of the other
	// processors, which takes ten times as long as all else here.
	clear(slots)
	return slots
}

func newTexts(list []string) texts {
	slots := newSlots(len(list))
	return texts{list: list, seed: maphash.MakeSeed(), mask: uint64(len(slots) - 1), slots: slots}
}

// add puts list[id] in, unless the same text is there: then it gives its id and true.
func (t *texts) add(id int32) (old int32, dup bool) {
	s := t.list[id]
	h := maphash.String(t.seed, s)
	for i := h & t.mask; ; i = (i + 1) & t.mask {
		switch c := t.slots[i]; {
		case c.id == 0:
			t.slots[i] = slot{uint32(h >> 32), uint32(id) + 1}
			return 0, false
		case c.hash == uint32(h>>32) && t.list[c.id-1] == s:
			return int32(c.id - 1), true
		}
	}
}

// find gives the id of a text.
func (t *texts) find(s string) (int32, bool) {
	return t.probe(maphash.String(t.seed, s), func(text string) bool { return text == s })
}

// findBytes is find for a text that is not a string.
func (t *texts) findBytes(b []byte) (int32, bool) {
	return t.probe(maphash.Bytes(t.seed, b), func(text string) bool { return text == string(b) })
}

func (t *texts) probe(h uint64, same func(text string) bool) (int32, bool) {
	for i := h & t.mask; ; i = (i + 1) & t.mask {
		switch c := t.slots[i]; {
		case c.id == 0:
			return 0, false
		case c.hash == uint32(h>>32) && same(t.list[c.id-1]):
			return int32(c.id - 1), true
		}
	}
}

// A pair is two neighbouring tokens, the left one in the upper half.
type pair uint64

func pairOf(left, right int32) pair { return pair(uint32(left))<<32 | pair(uint32(right)) }

// A merge is what a pair becomes. Merges of lower rank come first.
type merge struct {
	pair  pair
	token int32
}

// merges finds merges by pair, likewise.
type merges struct {
	list  []merge // by rank
	mul   [2]uint64
	mask  uint64
	slots []slot // of ranks
}

func newMerges(list []merge) merges {
	slots := newSlots(len(list))
	return merges{list: list, mul: [2]uint64{rand.Uint64() | 1, rand.Uint64() | 1}, mask: uint64(len(slots) - 1), slots: slots}
}

func (m *merges) hash(p pair) uint64 {
	h := uint64(p) * m.mul[0]
	h = (h ^ h>>32) * m.mul[1]
	return h ^ h>>32
}

// add puts list[rank] in, unless the same pair is there: then it gives its rank and
// true.
func (m *merges) add(rank int) (old int, dup bool) {
	p := m.list[rank].pair
	h := m.hash(p)
	for i := h & m.mask; ; i = (i + 1) & m.mask {
		switch c := m.slots[i]; {
		case c.id == 0:
			m.slots[i] = slot{uint32(h >> 32), uint32(rank) + 1}
			return 0, false
		case c.hash == uint32(h>>32) && m.list[c.id-1].pair == p:
			return int(c.id - 1), true
		}
	}
}

// find gives the rank of the merge of a pair.
func (m *merges) find(p pair) (rank int, ok bool) {
	h := m.hash(p)
	for i := h & m.mask; ; i = (i + 1) & m.mask {
		switch c := m.slots[i]; {
		case c.id == 0:
			return 0, false
		case c.hash == uint32(h>>32) && m.list[c.id-1].pair == p:
			return int(c.id - 1), true
		}
	}
}
