package dump

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// magic opens every recorded run; its last byte is the format's version.
const magic = "MINFDMP1"

// The file is
//
//	magic
//	u32 length of the header, header as JSON
//	u64 length of the body, u64 FNV-1a of the body
//	body, deflated, to the end of the file
//
// and the body, with varints as encoding/binary has them,
//
//	nodes: count; for each name, op (length and bytes), occurrence, dims (count and values)
//	positions, positions with values
//	hashes, u64 [position][node]
//	values, f32 [position][node][element]
//
// all little endian. Hashes do not compress; the values of a real model hardly
// do: the size of a file is about 8 bytes for each node and position and 4 for
// each element kept.

// Encode gives the run's file. Equal runs give equal bytes (of one Go release:
// the deflated part is compress/flate's).
func (r *Run) Encode() ([]byte, error) {
	header, err := json.Marshal(&r.Header)
	if err != nil {
		return nil, fmt.Errorf("dump header: %w", err)
	}
	if len(header) > maxHeader {
		return nil, fmt.Errorf("dump header of %d bytes: want at most %d", len(header), maxHeader)
	}
	body := r.body()
	if len(body) > maxBody {
		return nil, fmt.Errorf("dump body of %d bytes: want at most %d", len(body), maxBody)
	}
	var out bytes.Buffer
	out.WriteString(magic)
	out.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(header))))
	out.Write(header)
	out.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(body))))
	out.Write(binary.LittleEndian.AppendUint64(nil, sum(body)))
	if err := deflate(&out, body); err != nil {
		return nil, fmt.Errorf("dump: %w", err)
	}
	return out.Bytes(), nil
}

func deflate(out io.Writer, body []byte) error {
	w, err := flate.NewWriter(out, flate.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(body); err != nil {
		return err
	}
	return w.Close()
}

func (r *Run) body() []byte {
	var b []byte
	str := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Nodes)))
	for _, n := range r.Nodes {
		str(n.Name)
		str(n.Op)
		b = binary.AppendUvarint(b, uint64(n.Occ))
		b = binary.AppendUvarint(b, uint64(len(n.Dims)))
		for _, d := range n.Dims {
			b = binary.AppendUvarint(b, uint64(d))
		}
	}
	b = binary.AppendUvarint(b, uint64(r.positions))
	b = binary.AppendUvarint(b, uint64(r.ValuePositions()))
	for _, h := range r.hashes {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	for _, v := range r.values {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
	}
	return b
}

func sum(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

// Decode reads a recorded run. Every length and count is checked against the
// bytes there are before memory is taken for it; a broken file is one line of
// error.
func Decode(file []byte) (*Run, error) {
	r, err := decode(file)
	if err != nil {
		return nil, fmt.Errorf("recorded run: %w", err)
	}
	return r, nil
}

func decode(file []byte) (*Run, error) {
	rest, ok := bytes.CutPrefix(file, []byte(magic))
	if !ok {
		return nil, fmt.Errorf("starts with %q, want %q", file[:min(len(file), len(magic))], magic)
	}
	if len(rest) < 4 {
		return nil, errors.New("cut off before the header")
	}
	n := binary.LittleEndian.Uint32(rest)
	rest = rest[4:]
	if n > maxHeader || int(n) > len(rest) {
		return nil, fmt.Errorf("header of %d bytes, but %d follow (and at most %d are read)", n, len(rest), maxHeader)
	}
	r := &Run{}
	if err := decodeHeader(rest[:n], &r.Header); err != nil {
		return nil, err
	}
	rest = rest[n:]
	if len(rest) < 16 {
		return nil, errors.New("cut off before the body")
	}
	size, want := binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[8:])
	rest = rest[16:]
	// Deflate can't shrink by more than about 1032 to 1.
	if size > maxBody || size > 1100*uint64(len(rest)) {
		return nil, fmt.Errorf("body of %d bytes can't come from %d compressed ones", size, len(rest))
	}
	body, err := inflate(rest, int(size))
	if err != nil {
		return nil, err
	}
	if got := sum(body); got != want {
		return nil, fmt.Errorf("body hash %016x, want %016x", got, want)
	}
	if err := r.decodeBody(body); err != nil {
		return nil, err
	}
	return r, nil
}

func decodeHeader(text []byte, h *Header) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(h); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	if d.InputOffset() != int64(len(text)) {
		return fmt.Errorf("header: JSON ends at byte %d of %d", d.InputOffset(), len(text))
	}
	if b, err := hex.DecodeString(h.ModelSHA256); err != nil || len(b) != 32 {
		return fmt.Errorf("header: model_sha256 %q, want 64 hex digits", h.ModelSHA256)
	}
	if len(h.Prompt) == 0 {
		return errors.New("header: no prompt tokens")
	}
	if p := h.Positions(); p > maxPositions {
		return fmt.Errorf("header: %d positions, want at most %d", p, maxPositions)
	}
	for p := range h.Positions() {
		if t := h.Token(p); t < 0 {
			return fmt.Errorf("header: token %d is %d, want an id", p, t)
		}
	}
	return nil
}

// inflate gives exactly size bytes and wants the compressed data to end there.
func inflate(data []byte, size int) ([]byte, error) {
	src := bytes.NewReader(data)
	z := flate.NewReader(src)
	// One byte more than wanted shows a body that is too long.
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.LimitReader(z, int64(size)+1))
	if err != nil {
		return nil, fmt.Errorf("body: after %d bytes: %w", n, err)
	}
	if n != int64(size) {
		return nil, fmt.Errorf("body: at least %d bytes, want %d", n, size)
	}
	if src.Len() != 0 {
		return nil, fmt.Errorf("%d bytes after the body", src.Len())
	}
	return buf.Bytes(), nil
}

// A cursor reads the body; the first error sticks.
type cursor struct {
	b   []byte
	err error
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("body: "+format, args...)
		c.b = nil
	}
}

// number reads a varint of at most limit.
func (c *cursor) number(what string, limit int) int {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.fail("cut off in %s", what)
		return 0
	}
	if v > uint64(limit) {
		c.fail("%s %d, want at most %d", what, v, limit)
		return 0
	}
	c.b = c.b[n:]
	return int(v)
}

func (c *cursor) str(what string) string {
	n := c.number("the length of "+what, maxString)
	if n > len(c.b) {
		c.fail("%s of %d bytes, but %d follow", what, n, len(c.b))
		return ""
	}
	s := string(c.b[:n])
	c.b = c.b[n:]
	// A name is printed in errors and reports, on one line.
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		c.fail("%s is %q, want printable text", what, s)
	}
	return s
}

func (r *Run) decodeBody(body []byte) error {
	c := &cursor{b: body}
	count := c.number("the number of nodes", maxNodes)
	r.index = make(map[nodeName]int)
	for i := 0; i < count && c.err == nil; i++ {
		n := Node{Name: c.str("a node name"), Op: c.str("an op name"), Occ: c.number("an occurrence", maxNodes)}
		dims := c.number("a number of dims", maxDims)
		if dims == 0 {
			c.fail("node %d has no dims", i)
		}
		size := 1
		for j := 0; j < dims && c.err == nil; j++ {
			d := c.number("a dim", maxBody)
			if d == CellDim && j > 0 {
				c.fail("node %d has dim %d of 0", i, j)
			}
			n.Dims = append(n.Dims, d)
			if size *= max(d, 1); size > maxBody {
				c.fail("node %d has dims %v: too large", i, n.Dims)
			}
		}
		name := nodeName{n.Name, n.Op, n.Occ}
		if _, twice := r.index[name]; twice {
			c.fail("node %d repeats %v", i, r.Key(0, r.index[name]))
		}
		r.index[name] = i
		r.Nodes = append(r.Nodes, n)
	}
	if c.err == nil && count == 0 {
		c.fail("no nodes")
	}
	r.positions = c.number("the number of positions", maxPositions)
	keep := c.number("the number of positions with values", r.positions)
	if c.err != nil {
		return c.err
	}
	if want := r.Header.Positions(); r.positions != want {
		return fmt.Errorf("body: %d positions, but the header's tokens make %d", r.positions, want)
	}
	// Both products are below 2^32 and 2^16 times 2^42: no overflow of an int.
	cells := r.positions * count
	elements := 0
	for p := range keep {
		for i := range r.Nodes {
			elements += r.Nodes[i].Size(p)
		}
		if elements > maxBody {
			return fmt.Errorf("body: the values kept have more than %d elements", maxBody)
		}
	}
	if want := 8*cells + 4*elements; len(c.b) != want {
		return fmt.Errorf("body: %d bytes of hashes and values, want %d", len(c.b), want)
	}
	r.hashes = make([]uint64, cells)
	for i := range r.hashes {
		r.hashes[i] = binary.LittleEndian.Uint64(c.b[8*i:])
	}
	b := c.b[8*cells:]
	for p := range keep {
		for i := range r.Nodes {
			v := make([]float32, r.Nodes[i].Size(p))
			for j := range v {
				v[j] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*j:]))
			}
			b = b[4*len(v):]
			// Only the values of a hash can be told apart from damage that a
			// matching body hash would not show: a recorder that went wrong.
			if got, want := Hash(v), r.Hash(p, i); got != want {
				return fmt.Errorf("body: the values of %v have hash %016x, recorded %016x", r.Key(p, i), got, want)
			}
			r.values = append(r.values, v)
		}
	}
	return nil
}

// Equal reports whether two runs record the same thing, down to the header.
func Equal(a, b *Run) bool {
	same := func(x, y []float32) bool {
		return slices.EqualFunc(x, y, func(v, w float32) bool { return math.Float32bits(v) == math.Float32bits(w) })
	}
	ha, errA := json.Marshal(&a.Header)
	hb, errB := json.Marshal(&b.Header)
	return errA == nil && errB == nil && bytes.Equal(ha, hb) &&
		slices.EqualFunc(a.Nodes, b.Nodes, func(x, y Node) bool {
			return x.Name == y.Name && x.Op == y.Op && x.Occ == y.Occ && slices.Equal(x.Dims, y.Dims)
		}) &&
		slices.Equal(a.hashes, b.hashes) && slices.EqualFunc(a.values, b.values, same)
}
