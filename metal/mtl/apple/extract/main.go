// Command extract writes testdata/metal.tsv: what a published binding of Apple's
// frameworks says of the messages and constants that package apple uses.
//
//	go run ./extract -from DIR -source 'NAME, commit HASH' > testdata/metal.tsv
//
// It runs in the folder of package apple. DIR is a checkout of the Rust binding
// that the objc2 project generates from Apple's headers, with the folders Metal and
// Foundation. From objc.go and enums.go it takes names alone: classes with
// selectors, and constants. Their types and values are the binding's. A name that
// the binding lacks is an error.
//
// The lines have fields between tabs:
//
//	method    class  - or + (of the class itself)  selector  result  arguments
//	conforms  class or protocol  the one that it extends
//	type      enumeration or struct  what it is made of
//	value     constant  number
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	from := flag.String("from", "", "checkout of the binding")
	source := flag.String("source", "", "what it is, for the first line")
	flag.Parse()
	if err := run(*from, *source); err != nil {
		fmt.Fprintln(os.Stderr, "extract:", err)
		os.Exit(2)
	}
}

func run(from, source string) error {
	selectors, constants, err := wanted()
	if err != nil {
		return err
	}
	b := binding{methods: map[string]string{}, extends: map[string]string{}, made: map[string]string{}, values: map[string]string{}}
	for _, folder := range []string{"Foundation", "Metal"} {
		files, err := filepath.Glob(filepath.Join(from, folder, "*.rs"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("%s/%s: no Rust files", from, folder)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			b.read(string(text))
		}
	}
	lines := []string{}
	mentioned := map[string]bool{}
	for _, key := range selectors {
		method, ok := b.methods[key]
		if !ok {
			return fmt.Errorf("the binding has no %s", key)
		}
		lines = append(lines, "method\t"+method)
		for _, word := range regexp.MustCompile(`[A-Za-z_0-9]+`).FindAllString(method, -1) {
			mentioned[word] = true
		}
	}
	for word := range mentioned {
		if made, ok := b.made[word]; ok {
			lines = append(lines, "type\t"+word+"\t"+made)
		}
		for at := word; b.extends[at] != ""; at = b.extends[at] {
			lines = append(lines, "conforms\t"+at+"\t"+b.extends[at])
		}
	}
	for _, name := range constants {
		n, err := b.value(name, 0)
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("value\t%s\t%d", name, n))
	}
	slices.Sort(lines)
	fmt.Printf("# From %s.\n", source)
	fmt.Printf("# Written by metal/mtl/apple/extract; its lines are explained there.\n")
	for _, line := range slices.Compact(lines) {
		fmt.Println(line)
	}
	return nil
}

// wanted are the names in the tables of package apple: "Class selector", and
// constants under Metal's names.
func wanted() (selectors, constants []string, err error) {
	table, err := parser.ParseFile(token.NewFileSet(), "objc.go", nil, 0)
	if err != nil {
		return nil, nil, err
	}
	ast.Inspect(table, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok && f.Tag != nil {
			tag, _ := strconv.Unquote(f.Tag.Value)
			selectors = append(selectors, reflect.StructTag(tag).Get("objc"))
		}
		return true
	})
	enums, err := parser.ParseFile(token.NewFileSet(), "enums.go", nil, 0)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range enums.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, s := range g.Specs {
				for _, name := range s.(*ast.ValueSpec).Names {
					constant := "MTL" + strings.TrimPrefix(name.Name, "mtl")
					constants = append(constants, constant)
					// A test holds a scalar's number against that of its vector.
					if strings.HasPrefix(constant, "MTLDataType") {
						constants = append(constants, constant+"4")
					}
				}
			}
		}
	}
	return selectors, constants, nil
}

// binding is what was read.
type binding struct {
	methods map[string]string // "Class selector": the fields of its line
	extends map[string]string
	made    map[string]string
	values  map[string]string // constant: its expression
}

var (
	protocolLine = regexp.MustCompile(`^\s*pub unsafe trait (\w+)\s*:\s*(\w*)`)
	classLine    = regexp.MustCompile(`^\s*pub struct (\w+)(<.*>)?;`)
	superLine    = regexp.MustCompile(`#\[unsafe\(super\((\w+)`)
	implLine     = regexp.MustCompile(`^impl(?:<[^>]*>)? (\w+)`)
	methodLine   = regexp.MustCompile(`#\[unsafe\(method\(([^)]+)\)\)\]`)
	enumLine     = regexp.MustCompile(`^pub struct (\w+)\(pub (NSU?Integer)\);`)
	structLine   = regexp.MustCompile(`^pub struct (\w+) \{`)
	fieldLine    = regexp.MustCompile(`^    pub \w+: (\w+),`)
	aliasLine    = regexp.MustCompile(`#\[doc\(alias = "(\w+)"\)\]`)
	constLine    = regexp.MustCompile(`const \w+(?:: Self)? = (?:Self\()?(.*?)\)?;`)
	plainLine    = regexp.MustCompile(`^pub const (\w+): \w+ = (.*);`)
	timeLine     = regexp.MustCompile(`^pub type (\w+) = c_double;`)
)

// read takes a file in.
func (b *binding) read(text string) {
	owner, super, selector, alias, open := "", "", "", "", ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case protocolLine.MatchString(line):
			m := protocolLine.FindStringSubmatch(line)
			owner = m[1]
			if b.extends[owner] = m[2]; m[2] == "" { // on the next line
				b.extends[owner] = regexp.MustCompile(`\w+`).FindString(lines[i+1])
			}
		case superLine.MatchString(line):
			super = superLine.FindStringSubmatch(line)[1]
		case classLine.MatchString(line) && super != "":
			b.extends[classLine.FindStringSubmatch(line)[1]] = super
			super = ""
		case implLine.MatchString(line):
			owner = implLine.FindStringSubmatch(line)[1]
		case enumLine.MatchString(line):
			m := enumLine.FindStringSubmatch(line)
			b.made[m[1]] = m[2]
		case structLine.MatchString(line):
			open = structLine.FindStringSubmatch(line)[1]
			b.made[open] = ""
		case open != "" && fieldLine.MatchString(line):
			b.made[open] = strings.TrimSpace(b.made[open] + " " + fieldLine.FindStringSubmatch(line)[1])
		case line == "}":
			open = ""
		case aliasLine.MatchString(line):
			alias = aliasLine.FindStringSubmatch(line)[1]
		case plainLine.MatchString(line):
			m := plainLine.FindStringSubmatch(line)
			b.values[m[1]] = m[2]
		case alias != "" && constLine.MatchString(line):
			b.values[alias] = constLine.FindStringSubmatch(line)[1]
			alias = ""
		case timeLine.MatchString(line):
			b.made[timeLine.FindStringSubmatch(line)[1]] = "double"
		}
		if m := methodLine.FindStringSubmatch(line); m != nil {
			selector = m[1]
		}
		if at := strings.Index(line, "fn "); at >= 0 && selector != "" && !strings.HasPrefix(strings.TrimSpace(line), "//") {
			signature := line[at:]
			for !strings.HasSuffix(strings.TrimSpace(signature), ";") {
				i++
				signature += " " + strings.TrimSpace(lines[i])
			}
			b.method(owner, selector, signature)
			selector = ""
		}
	}
}

// method takes a function's signature apart. Of several of one selector (a class and
// its mutable one) the first counts.
func (b *binding) method(owner, selector, signature string) {
	open := strings.Index(signature, "(")
	depth, end := 0, open
	for ; end < len(signature); end++ {
		switch signature[end] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			break
		}
	}
	args := split(signature[open+1 : end])
	result := "()"
	if _, r, ok := strings.Cut(signature[end:], "->"); ok {
		result = strings.TrimSuffix(strings.TrimSpace(r), ";")
	}
	kind := "+"
	types := []string{}
	for _, a := range args {
		name, t, ok := strings.Cut(a, ":")
		if !ok || strings.TrimSpace(name) == "this" {
			kind = "-"
			continue
		}
		types = append(types, normal(strings.TrimSpace(t), owner))
	}
	// An error comes back through a pointer, the last argument.
	if bare, ok := strings.CutSuffix(selector, ":_"); ok {
		selector = bare + ":"
		inner := split(strings.TrimSuffix(strings.TrimPrefix(result, "Result<"), ">"))
		result = inner[0]
		if result == "()" {
			result = "bool"
		}
		types = append(types, "NSError**")
	}
	key := owner + " " + selector
	if _, ok := b.methods[key]; !ok {
		b.methods[key] = strings.Join(append([]string{owner, kind, selector, normal(result, owner)}, types...), "\t")
	}
}

// split cuts at commas outside of brackets.
func split(list string) []string {
	var parts []string
	depth, from := 0, 0
	for i, r := range list {
		switch r {
		case '<', '(', '[':
			depth++
		case ')', ']':
			depth--
		case '>':
			if list[i-1] != '-' {
				depth--
			}
		case ',':
			if depth == 0 {
				parts = append(parts, strings.TrimSpace(list[from:i]))
				from = i + 1
			}
		}
	}
	if rest := strings.TrimSpace(list[from:]); rest != "" {
		parts = append(parts, rest)
	}
	return parts
}

var objectType = regexp.MustCompile(`^(?:Retained<|&)(?:ProtocolObject<dyn )?(\w+)`)

// normal puts a Rust type in C's words: "MTLBuffer*", "NSError**", "NSUInteger",
// "void*", "block", "id".
func normal(t, owner string) string {
	for _, wrap := range []string{"Option<", "NonNull<"} {
		if inner, ok := strings.CutPrefix(t, wrap); ok && strings.HasSuffix(t, ">") {
			inner = strings.TrimSuffix(inner, ">")
			if wrap == "NonNull<" {
				inner = "*mut " + inner
			}
			return normal(inner, owner)
		}
	}
	if out, ok := strings.CutPrefix(t, "&mut Option<Retained<"); ok {
		return strings.TrimRight(out, ">") + "**"
	}
	switch t {
	case "()":
		return "void"
	case "*mut c_void", "*const c_void":
		return "void*"
	case "*mut c_char", "*const c_char", "&CStr":
		return "char*"
	case "&AnyObject", "Retained<AnyObject>", "Retained<ObjectType>", "&ObjectType":
		return "id"
	case "Retained<Self>":
		return owner + "*"
	}
	if strings.HasPrefix(t, "&block2::") || strings.HasPrefix(t, "MTLNewBuffer") || t == "&MTLCommandBufferHandler" {
		return "block"
	}
	if m := objectType.FindStringSubmatch(t); m != nil {
		return m[1] + "*"
	}
	return t
}

// value works a constant's expression out.
func (b *binding) value(name string, depth int) (int64, error) {
	expr, ok := b.values[name]
	if !ok || depth > 8 {
		return 0, fmt.Errorf("the binding has no constant %s", name)
	}
	// MTLStorageMode::Shared.0 is another constant.
	expr = regexp.MustCompile(`(\w+)::(\w+)\.0`).ReplaceAllString(expr, "$1$2")
	// A shift's width is a macro, which the binding lacks; of 0 it does not matter.
	if left, _, ok := strings.Cut(expr, "<<"); ok && b.values[left] == "0" {
		return 0, nil
	}
	failed := error(nil)
	expr = regexp.MustCompile(`\b[A-Z]\w+`).ReplaceAllStringFunc(expr, func(other string) string {
		n, err := b.value(other, depth+1)
		if err != nil {
			failed = err
		}
		return strconv.FormatInt(n, 10)
	})
	if failed != nil {
		return 0, fmt.Errorf("%s: %w", name, failed)
	}
	result, err := types.Eval(token.NewFileSet(), nil, token.NoPos, expr)
	if err != nil {
		return 0, fmt.Errorf("%s = %s: %w", name, expr, err)
	}
	n, exact := constant.Int64Val(constant.ToInt(result.Value))
	if !exact {
		return 0, fmt.Errorf("%s = %s: no integer", name, expr)
	}
	return n, nil
}
