package tokenizer

// A symbol is a part of a word while it is being merged. Symbols are a doubly
// linked list in a slice; -1 ends it at either side.
type symbol struct {
	token      int32 // -1 for a byte that the vocabulary does not have
	prev, next int32
	live       bool
	letter     byte // the byte, where token is -1
}

// A candidate is a pair of symbols that could be merged. It is stale, and is
// passed over, when one of its symbols is no longer what it was.
type candidate struct {
	order       uint64 // rank, then the left symbol's place: the lowest is merged first
	left, right int32
	a, b        int32 // the tokens of left and right
}

// encodeWord appends the ids of the word w.runes[start:end].
func (t *Tokenizer) encodeWord(w *encoder, start, end int, out []int32) []int32 {
	w.word = w.word[:0]
	for _, r := range w.runes[start:end] {
		w.word = appendRune(w.word, r)
	}
	if len(w.word) == 1 {
		return t.appendByte(out, w.word[0])
	}
	if t.ignoreMerges {
		if id, ok := t.wholeWord(w.word); ok {
			return append(out, id)
		}
	}

	w.symbols = w.symbols[:0]
	for i, c := range w.word {
		w.symbols = append(w.symbols, symbol{token: t.bytes[c], prev: int32(i - 1), next: int32(i + 1), live: true, letter: c})
	}
	w.symbols[len(w.symbols)-1].next = -1
	w.queue = w.queue[:0]
	for i := 1; i < len(w.symbols); i++ {
		t.offer(w, int32(i-1), int32(i))
	}
	for len(w.queue) > 0 {
		c := w.queue.pop()
		left, right := &w.symbols[c.left], &w.symbols[c.right]
		if !left.live || !right.live || left.token != c.a || right.token != c.b {
			continue
		}
		left.token = t.merges.list[c.order>>32].token
		left.next = right.next
		right.live = false
		if right.next >= 0 {
			w.symbols[right.next].prev = c.left
		}
		t.offer(w, left.prev, c.left)
		t.offer(w, c.left, left.next)
	}
	for i := int32(0); i >= 0; i = w.symbols[i].next {
		if s := &w.symbols[i]; s.token >= 0 {
			out = append(out, s.token)
		} else {
			out = t.appendByte(out, s.letter)
		}
	}
	return out
}

// offer puts the pair of two symbols in the queue if there is a merge for it.
func (t *Tokenizer) offer(w *encoder, left, right int32) {
	if left < 0 || right < 0 {
		return
	}
	a, b := w.symbols[left].token, w.symbols[right].token
	if a < 0 || b < 0 {
		return
	}
	if rank, ok := t.merges.find(pairOf(a, b)); ok {
		w.queue.push(candidate{order: uint64(rank)<<32 | uint64(left), left: left, right: right, a: a, b: b})
	}
}

// wholeWord finds the token whose text is the word in the byte-level alphabet.
func (t *Tokenizer) wholeWord(word []byte) (int32, bool) {
	var space [64]byte
	b := space[:0]
	for _, c := range word {
		b = appendRune(b, byteLetters[c])
	}
	return t.texts.findBytes(b)
}

// appendByte appends the token of a byte. Where there is none, llama.cpp tries
// the bytes of its letter's UTF-8 form as tokens, which only a vocabulary with
// texts of invalid UTF-8 has.
func (t *Tokenizer) appendByte(out []int32, c byte) []int32 {
	if id := t.bytes[c]; id >= 0 {
		return append(out, id)
	}
	for _, b := range []byte(string(byteLetters[c])) {
		if id, ok := t.texts.findBytes([]byte{b}); ok {
			out = append(out, id)
		}
	}
	return out
}

// A queue is a binary heap of candidates, the lowest order on top. It is written
// out because it is the inner loop of Encode.
type queue []candidate

func (q *queue) push(c candidate) {
	h := append(*q, c)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].order <= c.order {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = c
	*q = h
}

// pop takes the lowest candidate of a queue that is not empty.
func (q *queue) pop() candidate {
	h := *q
	top, c := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	for i := 0; len(h) > 0; {
		down := 2*i + 1
		if down >= len(h) {
			h[i] = c
			break
		}
		if down+1 < len(h) && h[down+1].order < h[down].order {
			down++
		}
		if c.order <= h[down].order {
			h[i] = c
			break
		}
		h[i] = h[down]
		i = down
	}
	return top
}
