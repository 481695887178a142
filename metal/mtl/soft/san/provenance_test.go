package san

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/ir"
)

// Pointers come through selects, branches, loops and memory.
const flowText = `func "k" {
  param buffer 0 device readonly "float" size 4 f32 name "a" !1
  param buffer 1 device "float" size 4 f32 name "b" !1
  param buffer 2 device "float" size 4 f32 name "c" !1
  param buffer 3 device "float" size 4 f32 name "d" !1
  param buffer 4 device "float" size 4 f32 name "e" !1
  pos 1 "k.metal" 3 1 at 0
  pos 2 "k.metal" 10 1 at 0
  pos 3 "k.metal" 11 1 at 0
  pos 4 "k.metal" 12 1 at 0
  pos 5 "k.metal" 13 1 at 0
  pos 6 "k.metal" 14 1 at 0
  pos 7 "k.metal" 15 1 at 0
  pos 8 "k.metal" 16 1 at 0
  pos 9 "k.metal" 17 1 at 0
  body
    %1:ptr = ptrparam 0
    %2:ptr = ptrparam 1
    %3:ptr = ptrparam 2
    %4:ptr = ptrparam 3
    %5:i32 = grid thread_index_in_simdgroup.x !2
    %6:i32 = const 7
    %7:i1 = icmp eq %5, %6 !3
    %8:f32 = load f32x1 device align 4 %1 !4
    %9:f32 = fneg %8 !5
    %10:ptr = if %7 !6 {
      yield %2 !6
    } else {
      yield %3 !6
    }
    store f32x1 device align 4 %10, %9 !7
    %11:i32 = const 0
    %12:i32 = const 1
    loop #1 (%13:i32 = %11, %14:ptr = %4) !8 {
      %15:i1 = icmp eq %13, %6 !8
      if %15 !8 {
        break #1 !8
      } else {
        yield !8
      }
      %16:i64 = const 4
      %17:ptr = ptradd %14, %16 !8
      %18:f32 = load f32x1 device align 4 %14 !9
      %19:i32 = add %13, %12 !8
      continue #1 %19, %17 !8
    }
    return
}
`

func TestAnalyse(t *testing.T) {
	f, err := ir.Parse(flowText)
	require.NoError(t, err)
	u := analyse(f)
	require.Equal(t, uint64(0b00110), u.writes, "b or c")
	require.Equal(t, uint64(0b01001), u.reads, "a, and d round the loop")
	require.Equal(t, map[int][]ir.Pos{1: {7}, 2: {7}}, u.stores)
	require.False(t, u.atomics)
}

// A pointer out of memory may be any buffer's.
func TestAnalyseLoadedPointer(t *testing.T) {
	f := kernel(true)
	value := func(typ ir.Type) ir.Value {
		f.Types = append(f.Types, typ)
		return ir.Value(len(f.Types) - 1)
	}
	at, loaded := value(ir.Ptr), value(ir.Ptr)
	f.Body.Instrs = append([]*ir.Instr{
		{Op: ir.PtrAlloca, Res: []ir.Value{at}},
		{Op: ir.Load, Args: []ir.Value{at}, Res: []ir.Value{loaded}, Mem: &ir.Mem{Elem: ir.Ptr, Count: 1}},
		{Op: ir.Store, Args: []ir.Value{loaded, 0}, Mem: &ir.Mem{Elem: ir.F32, Count: 1}},
	}, f.Body.Instrs...)
	u := analyse(f)
	require.Equal(t, uint64(0b111), u.writes)
	require.True(t, u.atomics)
}

// A wrong value points to the lines that it was made from, and to no others.
func TestMadeFrom(t *testing.T) {
	f, err := ir.Parse(flowText)
	require.NoError(t, err)
	c := New(Mem, Options{})
	var lines []int
	for _, l := range c.madeFrom(f, 7) {
		lines = append(lines, l.Line)
	}
	// The store itself, the negation and its load, the branch that chose the place
	// and its condition.
	require.Equal(t, []int{10, 11, 12, 13, 14, 15}, lines)
}
