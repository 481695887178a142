package mutation

import (
	"reflect"

	"minfer/metal/msl/sema"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

// class is what an operation works on.
type class uint8

const (
	floats class = 1 << iota
	integers
	pointers
)

// typeTable knows what the operands of the operations of a unit are, by the place
// where the expression starts and the operator. Of templates it is the union over
// their instances.
type typeTable struct {
	ops map[opKey]class
	// shared are the names of variables that are, or point to, threadgroup memory.
	shared map[string]bool
}

type opKey struct {
	at source.Pos
	op string
}

// typesOf walks all functions that a kernel reaches.
func typesOf(prog *sema.Program) *typeTable {
	t := &typeTable{ops: map[opKey]class{}, shared: map[string]bool{}}
	seen := map[uintptr]bool{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Interface:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Pointer:
			if v.IsNil() || v.Type().Elem().PkgPath() != reflect.TypeFor[sema.Program]().PkgPath() || seen[v.Pointer()] {
				return
			}
			seen[v.Pointer()] = true
			t.note(v.Interface())
			walk(v.Elem())
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					walk(v.Field(i))
				}
			}
		}
	}
	walk(reflect.ValueOf(prog))
	return t
}

func (t *typeTable) note(n any) {
	switch n := n.(type) {
	case *sema.Binary:
		t.ops[opKey{n.Where, n.Op.String()}] |= classOf(n.L.Type().T)
	case *sema.PtrAdd:
		op := "+"
		if n.Neg {
			op = "-"
		}
		t.ops[opKey{n.Where, op}] |= pointers
	case *sema.Assign:
		op := "="
		if n.Compound {
			op = n.Op.String() + "="
		}
		t.ops[opKey{n.Where, op}] |= classOf(n.L.Type().T)
	case *sema.Unary:
		if n.Op == sema.Neg {
			t.ops[opKey{n.Where, "neg"}] |= classOf(n.X.Type().T)
		}
	case *sema.Var:
		q := n.Type
		if q.T != nil && q.T.Kind == types.Pointer {
			q = q.T.Of
		}
		if q.Space == types.Threadgroup {
			t.shared[n.Name] = true
		}
	}
}

func classOf(t *types.Type) class {
	if t == nil {
		return 0
	}
	if t.Kind == types.Reference {
		t = t.Of.T
	}
	switch {
	case t.Kind == types.Pointer || t.Kind == types.Array:
		return pointers
	case t.ScalarKind().IsFloat():
		return floats
	case t.ScalarKind().IsInteger():
		return integers
	}
	return 0
}

// of gives what a binary, compound or unary ("neg") operation works on.
func (t *typeTable) of(at source.Pos, op string) class { return t.ops[opKey{at, op}] }
