// Package prelude is the part of the library's namespace metal that is written in
// the language itself: enumerations, type traits, numeric_limits, array, and functions that are made of
// other functions. What is one operation of the machine is a table of metal/msl/sema.
//
// The text is parsed once and has no positions: a diagnostic or an access inside
// it belongs to the place that called it. [Decls] hands out declarations by name, so
// that a program pays for what it uses. The tree is immutable and safe for
// concurrent use.
package prelude

import (
	_ "embed"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing/fstest"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/parse"
	"minfer/metal/msl/pp"
	"minfer/metal/msl/source"
)

//go:embed prelude.metal
var text string

// Decls gives the library's declarations in a namespace ("metal", "metal::fast") by the name
// that they declare; several for overloads and specialisations, in order.
func Decls(namespace string) map[string][]ast.Decl {
	all, _ := load()
	return all[namespace]
}

// Check reports what is wrong with the text; it is for tests.
func Check() error {
	_, err := load()
	return err
}

var load = sync.OnceValues(func() (map[string]map[string][]ast.Decl, error) {
	const name = "metal_prelude"
	toks, m, diags := pp.Process(fstest.MapFS{name: {Data: []byte(text)}}, name, pp.Options{})
	file, more := parse.File(toks, parse.Options{})
	var err error
	for _, d := range append(diags, more...) {
		if d.Severity == source.Error && err == nil {
			err = fmt.Errorf("prelude: %s: %s", m.Position(d.Span.Start), d.Msg)
		}
	}
	all := map[string]map[string][]ast.Decl{}
	index(all, "", file.Decls)
	dropPositions(reflect.ValueOf(file), map[uintptr]bool{})
	return all, err
})

// index sorts declarations by namespace and name.
func index(all map[string]map[string][]ast.Decl, ns string, ds []ast.Decl) {
	for _, d := range ds {
		if n, ok := d.(*ast.NamespaceDecl); ok {
			index(all, strings.TrimPrefix(ns+"::"+n.Name.Name, "::"), n.Decls)
			continue
		}
		if all[ns] == nil {
			all[ns] = map[string][]ast.Decl{}
		}
		for _, name := range names(d) {
			all[ns][name] = append(all[ns][name], d)
		}
	}
}

// names are what a declaration declares: an enum also its enumerators.
func names(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.TemplateDecl:
		return names(d.Decl)
	case *ast.FuncDecl:
		p := d.Name.Last()
		if p.Kind == ast.NameOperator {
			return []string{"operator" + p.Ident}
		}
		return []string{p.Ident}
	case *ast.RecordDecl:
		if d.Name != nil {
			return []string{d.Name.Last().Ident}
		}
	case *ast.EnumDecl:
		out := []string{d.Name.Last().Ident}
		if !d.Scoped {
			for _, e := range d.Enumerators {
				out = append(out, e.Name.Name)
			}
		}
		return out
	case *ast.TypedefDecl:
		return []string{d.Name.Name}
	case *ast.VarDecl:
		return []string{d.Name.Last().Ident}
	}
	return nil
}

var rangeType = reflect.TypeFor[ast.Range]()

// dropPositions makes all positions of a tree unknown.
func dropPositions(v reflect.Value, seen map[uintptr]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] {
			return
		}
		seen[v.Pointer()] = true
		dropPositions(v.Elem(), seen)
	case reflect.Interface:
		if !v.IsNil() {
			dropPositions(v.Elem(), seen)
		}
	case reflect.Struct:
		if v.Type() == rangeType {
			if v.CanSet() {
				v.SetZero()
			}
			return
		}
		for i := range v.NumField() {
			dropPositions(v.Field(i), seen)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			dropPositions(v.Index(i), seen)
		}
	}
}
