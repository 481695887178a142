package mtltest

import (
	"os"
	"unsafe"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
)

// Buffers checks allocation and the windows of Read and Write.
func Buffers() []Check {
	return []Check{
		{"buffers/label and size", func(t T, d mtl.Device) {
			for _, size := range []int{1, 3, 4, 4095, 4097, 1 << 20} {
				b := kit{t, d}.empty("the label", size)
				require.Equal(t, "the label", b.Label())
				require.Equal(t, size, b.Size())
				b.Release()
			}
		}},
		{"buffers/impossible sizes", func(t T, d mtl.Device) {
			for _, size := range []int{0, -1, d.Limits().MaxBufferLength + 1} {
				_, err := d.NewBuffer(size, "odd")
				require.Error(t, err, "size %d", size)
				require.Contains(t, err.Error(), `"odd"`)
			}
		}},
		{"buffers/windows", func(t T, d mtl.Device) {
			k := kit{t, d}
			for _, w := range []struct{ off, n int }{{0, 64}, {0, 1}, {63, 1}, {1, 62}, {7, 13}, {64, 0}, {0, 0}} {
				b := k.empty("b", 64)
				want := make([]byte, 64)
				for i := range want {
					want[i] = byte(i ^ 0xa5)
				}
				require.NoError(t, b.Write(0, want))
				part := make([]byte, w.n)
				for i := range part {
					part[i] = byte(200 + i)
				}
				require.NoError(t, b.Write(w.off, part))
				copy(want[w.off:], part)
				got := make([]byte, 64)
				require.NoError(t, b.Read(0, got))
				require.Equal(t, want, got, "the window and nothing else is written")
				window := make([]byte, w.n)
				require.NoError(t, b.Read(w.off, window))
				require.Equal(t, part, window)
				b.Release()
			}
		}},
		{"buffers/windows outside", func(t T, d mtl.Device) {
			b := kit{t, d}.words("bounded", count(0, 16)...)
			for _, w := range []struct{ off, n int }{{-1, 1}, {0, 65}, {64, 1}, {65, 0}, {1 << 62, 8}, {60, 5}} {
				require.ErrorContains(t, b.Read(w.off, make([]byte, w.n)), `"bounded"`, "read of %v", w)
				require.ErrorContains(t, b.Write(w.off, make([]byte, w.n)), `"bounded"`, "write of %v", w)
			}
			require.Equal(t, count(0, 16), kit{t, d}.read(b), "a refused write writes nothing")
		}},
		{"buffers/mapped", func(t T, d mtl.Device) {
			k := kit{t, d}
			b := k.words("b", 1, 2, 3)
			m := b.Mapped()
			if m == nil {
				return // legal: the device's memory is not the host's
			}
			require.Len(t, m, 12)
			require.Equal(t, []uint32{1, 2, 3}, wordsOf(m))
			copy(m[4:], bytesOf([]uint32{20}))
			require.Equal(t, []uint32{1, 20, 3}, k.read(b))
			dst := k.empty("dst", 12)
			k.run(line("add", k.pipeline("basic.metal", "add", nil), 3, 3, whole(0, b, mtl.Read), whole(1, dst, mtl.Output), inline(2, 1)))
			require.Equal(t, []uint32{2, 21, 4}, wordsOf(dst.Mapped()))
		}},
	}
}

// NoCopy checks buffers over the host's memory.
func NoCopy() []Check {
	return []Check{
		{"no copy/both sides see writes", func(t T, d mtl.Device) {
			if !d.Limits().NoCopy {
				return
			}
			k := kit{t, d}
			page := d.Limits().PageSize
			data := pages(page, 2*page)
			copy(data[page:], bytesOf([]uint32{1, 2, 3}))
			b, err := d.WrapNoCopy(data, "wrapped")
			require.NoError(t, err)
			require.Equal(t, 2*page, b.Size())
			require.Equal(t, "wrapped", b.Label())
			add := k.pipeline("basic.metal", "add", nil)
			at := func(index, off int, access mtl.Access) mtl.Binding {
				return mtl.Binding{Index: index, Buffer: b, Offset: off, Length: 12, Access: access}
			}
			k.run(line("add", add, 3, 3, at(0, page, mtl.Read), at(1, 64, mtl.Output), inline(2, 5)))
			require.Equal(t, []uint32{6, 7, 8}, wordsOf(data[64:76]), "the kernel's writes reach the host's memory")
			copy(data[page:], bytesOf([]uint32{100}))
			k.run(line("add", add, 3, 3, at(0, page, mtl.Read), at(1, 64, mtl.Output), inline(2, 5)))
			require.Equal(t, []uint32{105, 7, 8}, wordsOf(data[64:76]), "the host's writes reach the kernel")
			require.NoError(t, b.Write(0, []byte{42}))
			require.Equal(t, byte(42), data[0])
			b.Release()
			require.Equal(t, byte(42), data[0], "the memory is still the caller's")
		}},
		{"no copy/part of a page", func(t T, d mtl.Device) {
			if !d.Limits().NoCopy {
				return
			}
			k := kit{t, d}
			page := d.Limits().PageSize
			data := pages(page, page)[:page-40]
			b, err := d.WrapNoCopy(data, "short")
			require.NoError(t, err)
			require.Equal(t, len(data), b.Size())
			require.Error(t, b.Write(len(data), []byte{1}))
			dst := k.empty("dst", 4)
			copy(data[len(data)-4:], bytesOf([]uint32{9}))
			k.run(line("add", k.pipeline("basic.metal", "add", nil), 1, 1,
				mtl.Binding{Index: 0, Buffer: b, Offset: len(data) - 4, Length: 4}, whole(1, dst, mtl.Output), inline(2, 1)))
			require.Equal(t, []uint32{10}, k.read(dst))
			b.Release()
		}},
		{"no copy/refused", func(t T, d mtl.Device) {
			page := max(d.Limits().PageSize, os.Getpagesize())
			data := pages(page, 2*page)
			if !d.Limits().NoCopy {
				_, err := d.WrapNoCopy(data, "wrapped")
				require.ErrorContains(t, err, `"wrapped"`)
				return
			}
			for _, off := range []int{1, 64, page / 2} {
				_, err := d.WrapNoCopy(data[off:], "wrapped")
				require.ErrorContains(t, err, `"wrapped"`, "memory %d bytes past a page boundary", off)
			}
			_, err := d.WrapNoCopy(data[:0], "wrapped")
			require.ErrorContains(t, err, `"wrapped"`)
			_, err = d.WrapNoCopy(nil, "wrapped")
			require.ErrorContains(t, err, `"wrapped"`)
		}},
	}
}

// pages gives n bytes on a page boundary, with the whole of the last page
// addressable.
func pages(page, n int) []byte {
	raw := make([]byte, n+2*page)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & uintptr(page-1))
	return raw[skip : skip+n]
}

// Copies checks device-side copies.
func Copies() []Check {
	return []Check{
		{"copies/windows", func(t T, d mtl.Device) {
			k := kit{t, d}
			for _, c := range []struct{ dst, src, n int }{{0, 0, 64}, {4, 8, 4}, {0, 60, 4}, {60, 0, 4}, {12, 20, 28}} {
				src, dst := k.words("src", count(100, 16)...), k.words("dst", count(0, 16)...)
				cb := k.commands("copy")
				require.NoError(t, cb.Copy(dst, c.dst, src, c.src, c.n))
				k.submit(cb)
				want := count(0, 16)
				copy(want[c.dst/4:], count(100, 16)[c.src/4:(c.src+c.n)/4])
				require.Equal(t, want, k.read(dst))
				require.Equal(t, count(100, 16), k.read(src))
			}
		}},
		{"copies/within a buffer", func(t T, d mtl.Device) {
			k := kit{t, d}
			b := k.words("b", count(0, 8)...)
			cb := k.commands("copy")
			require.NoError(t, cb.Copy(b, 16, b, 0, 16))
			k.submit(cb)
			require.Equal(t, []uint32{0, 1, 2, 3, 0, 1, 2, 3}, k.read(b))
		}},
		{"copies/between dispatches", func(t T, d mtl.Device) {
			k := kit{t, d}
			affine := k.pipeline("basic.metal", "affine", nil)
			x, y := k.words("x", count(1, 40)...), k.empty("y", 160)
			cb := k.commands("chain")
			k.dispatch(cb, line("3x+1", affine, 40, 32, whole(0, x, mtl.ReadWrite), inline(1, 3, 1)))
			cb.Barrier()
			require.NoError(t, cb.Copy(y, 0, x, 0, 160))
			cb.Barrier()
			k.dispatch(cb, line("0", affine, 40, 32, whole(0, x, mtl.ReadWrite), inline(1, 0, 0)))
			k.dispatch(cb, line("5y+2", affine, 40, 32, whole(0, y, mtl.ReadWrite), inline(1, 5, 2)))
			k.submit(cb)
			want := make([]uint32, 40)
			for i := range want {
				want[i] = (uint32(i+1)*3+1)*5 + 2
			}
			require.Equal(t, want, k.read(y))
			require.Equal(t, times(40, 0), k.read(x))
		}},
		{"copies/refused", func(t T, d mtl.Device) {
			k := kit{t, d}
			a, b := k.words("alpha", count(0, 16)...), k.words("beta", count(50, 8)...)
			cb := k.commands("copy")
			for _, c := range []struct {
				dst    mtl.Buffer
				dstOff int
				src    mtl.Buffer
				srcOff int
				n      int
				names  string
			}{
				{a, 0, b, 0, 36, "beta"}, {b, 4, a, 0, 32, "beta"}, {a, -4, b, 0, 4, "alpha"}, {a, 0, b, -4, 4, "beta"},
				{a, 0, b, 0, -4, "alpha"}, {a, 2, b, 0, 4, "alpha"}, {a, 0, b, 2, 4, "beta"}, {a, 0, b, 0, 6, "alpha"},
				{a, 0, b, 0, 0, "alpha"}, {a, 0, a, 8, 12, "alpha"},
			} {
				require.ErrorContains(t, cb.Copy(c.dst, c.dstOff, c.src, c.srcOff, c.n), c.names)
			}
			require.NoError(t, cb.Copy(a, 0, b, 0, 4))
			k.submit(cb)
			want := count(0, 16)
			want[0] = 50
			require.Equal(t, want, k.read(a), "only the legal copy happened")
		}},
	}
}
