package sema

import (
	"reflect"

	"minfer/metal/msl/ast"
)

// walkNames calls f with every identifier that a tree mentions as the first part of a name,
// and with "auto" for auto.
func walkNames(n ast.Node, f func(string)) {
	switch n := n.(type) {
	case nil:
	case *ast.BasicType, *ast.IntLit, *ast.FloatLit, *ast.BoolLit, *ast.CharLit, *ast.StringLit, *ast.NullLit:
	case *ast.AutoType:
		f("auto")
	case *ast.NamedType:
		walkName(n.Name, f)
	case *ast.NameExpr:
		walkName(n.Name, f)
	case *ast.QualifiedType:
		walkNames(n.Elem, f)
	case *ast.PointerType:
		walkNames(n.Elem, f)
	case *ast.ReferenceType:
		walkNames(n.Elem, f)
	case *ast.PackType:
		walkNames(n.Elem, f)
	case *ast.ArrayType:
		walkNames(n.Elem, f)
		if n.Len != nil {
			walkNames(n.Len, f)
		}
	case *ast.FuncType:
		walkNames(n.Result, f)
		for _, p := range n.Params {
			walkNames(p.Type, f)
		}
	default:
		walkAny(reflect.ValueOf(n), f, 0)
	}
}

func walkName(n *ast.Name, f func(string)) {
	for i := range n.Parts {
		p := &n.Parts[i]
		if i == 0 {
			f(p.Ident)
		}
		for j := range p.Args {
			if p.Args[j].Type != nil {
				walkNames(p.Args[j].Type, f)
			}
			if p.Args[j].Expr != nil {
				walkNames(p.Args[j].Expr, f)
			}
		}
	}
}

// walkAny finds the names in a node of any form.
func walkAny(v reflect.Value, f func(string), depth int) {
	if depth > 500 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return
		}
		if n, ok := v.Interface().(*ast.Name); ok {
			walkName(n, f)
			return
		}
		if _, ok := v.Interface().(*ast.AutoType); ok {
			f("auto")
			return
		}
		walkAny(v.Elem(), f, depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			walkAny(v.Field(i), f, depth+1)
		}
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k == reflect.String || k == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			walkAny(v.Index(i), f, depth+1)
		}
	}
}

// sameSyntax says that two trees are equal but for their places in the text.
func sameSyntax(a, b ast.Node) bool {
	return sameValue(reflect.ValueOf(a), reflect.ValueOf(b), 0)
}

var rangeType = reflect.TypeFor[ast.Range]()

func sameValue(a, b reflect.Value, depth int) bool {
	if depth > 500 || a.IsValid() != b.IsValid() {
		return false
	}
	if !a.IsValid() {
		return true
	}
	if a.Type() != b.Type() {
		return false
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return sameValue(a.Elem(), b.Elem(), depth+1)
	case reflect.Struct:
		if a.Type() == rangeType {
			return true
		}
		for i := range a.NumField() {
			if !sameValue(a.Field(i), b.Field(i), depth+1) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !sameValue(a.Index(i), b.Index(i), depth+1) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

// plainButArgs says that a name is one identifier, with or without arguments.
func plainButArgs(n *ast.Name) bool {
	return !n.Global && len(n.Parts) == 1 && n.Parts[0].Kind == ast.NameIdent
}
