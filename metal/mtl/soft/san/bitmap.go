package san

import "math/bits"

// bitmap is a set of bytes of a buffer, one bit a byte, in pages that exist only
// where the answer is mixed. The zero pages pointer means that the whole is
// uniformly full or empty.
type bitmap struct {
	size  int
	full  bool // where pages is nil: all set, or none
	pages []*bitPage
}

const (
	bitPageShift = 12
	bitPageBytes = 1 << bitPageShift
)

type bitPage [bitPageBytes / 64]uint64

// fullPage stands for a page with all bits set; nil is an empty one.
var fullPage = func() *bitPage {
	p := new(bitPage)
	for i := range p {
		p[i] = ^uint64(0)
	}
	return p
}()

func newBitmap(size int) *bitmap { return &bitmap{size: size} }

// clip bounds a range to the map.
func (b *bitmap) clip(off, n int) (int, int) {
	if off < 0 {
		n += off
		off = 0
	}
	return off, max(0, min(n, b.size-off))
}

func (b *bitmap) spread() {
	b.pages = make([]*bitPage, (b.size+bitPageBytes-1)/bitPageBytes)
	if b.full {
		for i := range b.pages {
			b.pages[i] = fullPage
		}
	}
}

func (b *bitmap) put(off, n int, set bool) {
	off, n = b.clip(off, n)
	if n == 0 || b.pages == nil && b.full == set {
		return
	}
	if n == b.size {
		b.full, b.pages = set, nil
		return
	}
	if b.pages == nil {
		b.spread()
	}
	for n > 0 {
		i, at := off>>bitPageShift, off&(bitPageBytes-1)
		m := min(n, bitPageBytes-at)
		switch p := b.pages[i]; {
		case m == bitPageBytes && set:
			b.pages[i] = fullPage
		case m == bitPageBytes:
			b.pages[i] = nil
		case set && p == fullPage, !set && p == nil:
		default:
			if p == nil {
				p = new(bitPage)
				b.pages[i] = p
			} else if p == fullPage {
				p = new(bitPage)
				*p = *fullPage
				b.pages[i] = p
				if end := b.size - i<<bitPageShift; end < bitPageBytes {
					putBits(p[:], end, bitPageBytes-end, false)
				}
			}
			putBits(p[:], at, m, set)
		}
		off, n = off+m, n-m
	}
}

// putBits sets or clears n bits from bit at on.
func putBits(words []uint64, at, n int, set bool) {
	for n > 0 {
		i, s := at>>6, at&63
		m := min(n, 64-s)
		mask := ^uint64(0) >> (64 - m) << s
		if set {
			words[i] |= mask
		} else {
			words[i] &^= mask
		}
		at, n = at+m, n-m
	}
}

// getBits returns n <= 64 bits from bit at on; bits past the end are 0.
func getBits(words []uint64, at, n int) uint64 {
	i, s := at>>6, at&63
	if i >= len(words) {
		return 0
	}
	v := words[i] >> s
	if s+n > 64 && i+1 < len(words) {
		v |= words[i+1] << (64 - s)
	}
	return v & (^uint64(0) >> (64 - n))
}

// get returns the n <= 64 bits of the bytes from off on.
func (b *bitmap) get(off, n int) uint64 {
	if b.pages == nil {
		if b.full {
			return ^uint64(0) >> (64 - n)
		}
		return 0
	}
	i, at := off>>bitPageShift, off&(bitPageBytes-1)
	if i >= len(b.pages) {
		return 0
	}
	first := min(n, bitPageBytes-at)
	var v uint64
	if p := b.pages[i]; p != nil {
		v = getBits(p[:], at, first)
	}
	if first < n && i+1 < len(b.pages) {
		if p := b.pages[i+1]; p != nil {
			v |= getBits(p[:], 0, n-first) << first
		}
	}
	return v
}

// gaps calls f for each run of unset bytes in the range, in order.
func (b *bitmap) gaps(off, n int, f func(off, n int)) {
	off, n = b.clip(off, n)
	if n == 0 || b.pages == nil && b.full {
		return
	}
	if b.pages == nil {
		f(off, n)
		return
	}
	start := -1
	for end := off + n; off < end; {
		p, at := b.pages[off>>bitPageShift], off&(bitPageBytes-1)
		m := min(end-off, bitPageBytes-at)
		if p != nil && p != fullPage {
			m = min(m, 64-at&63)
			word := getBits(p[:], at, m)
			switch {
			case word == ^uint64(0)>>(64-m):
				if start >= 0 {
					f(start, off-start)
					start = -1
				}
			case word == 0:
				if start < 0 {
					start = off
				}
			default:
				for i := range m {
					if word>>i&1 == 0 && start < 0 {
						start = off + i
					} else if word>>i&1 != 0 && start >= 0 {
						f(start, off+i-start)
						start = -1
					}
				}
			}
		} else if p == nil && start < 0 {
			start = off
		} else if p == fullPage && start >= 0 {
			f(start, off-start)
			start = -1
		}
		off += m
		if off >= end && start >= 0 {
			f(start, off-start)
		}
	}
}

// covers says whether every byte of the range is set.
func (b *bitmap) covers(off, n int) bool {
	all := true
	b.gaps(off, n, func(int, int) { all = false })
	return all
}

// or adds another map of the same size.
func (b *bitmap) or(o *bitmap) {
	switch {
	case o.pages == nil && !o.full, b.pages == nil && b.full:
		return
	case o.pages == nil:
		b.full, b.pages = true, nil
		return
	}
	if b.pages == nil {
		b.spread()
	}
	for i, p := range o.pages {
		switch q := b.pages[i]; {
		case p == nil || q == fullPage:
		case p == fullPage:
			b.pages[i] = fullPage
		case q == nil:
			c := *p
			b.pages[i] = &c
		default:
			for j := range q {
				q[j] |= p[j]
			}
		}
	}
}

// count is the number of set bytes.
func (b *bitmap) count() int {
	if b.pages == nil {
		if b.full {
			return b.size
		}
		return 0
	}
	n := 0
	for i, p := range b.pages {
		if p == fullPage {
			n += min(bitPageBytes, b.size-i*bitPageBytes)
		} else if p != nil {
			for _, w := range p {
				n += bits.OnesCount64(w)
			}
		}
	}
	return n
}
