package apple

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// entry is a message in the words of C, of the table or of the binding.
type entry struct {
	field           string // of the table
	receiver, class string // the object's class; the one that declares the message
	of              string // "-", or "+" for one to the class itself
	selector        string
	result          string
	args            []string
}

// facts are what testdata/metal.tsv says.
type facts struct {
	methods  map[string]entry // "Class selector"
	conforms map[string]string
	types    map[string]string
	values   map[string]int64
}

func readFacts(t *testing.T) facts {
	text, err := os.ReadFile("testdata/metal.tsv")
	require.NoError(t, err)
	f := facts{map[string]entry{}, map[string]string{}, map[string]string{}, map[string]int64{}}
	for line := range strings.Lines(string(text)) {
		words := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case strings.HasPrefix(line, "#"):
		case words[0] == "method":
			f.methods[words[1]+" "+words[3]] = entry{class: words[1], of: words[2], selector: words[3], result: words[4], args: words[5:]}
		case words[0] == "conforms":
			f.conforms[words[1]] = words[2]
		case words[0] == "type":
			f.types[words[1]] = words[2]
		case words[0] == "value":
			n, err := strconv.ParseInt(words[2], 10, 64)
			require.NoError(t, err)
			f.values[words[1]] = n
		default:
			require.Fail(t, "a line of another kind", line)
		}
	}
	require.Greater(t, len(f.methods), 60)
	return f
}

// objcName is Apple's name for one of the package's: nsString is NSString.
func objcName(name string) string {
	for _, prefix := range []string{"ns", "mtl"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return strings.ToUpper(prefix) + rest
		}
	}
	return name
}

// cType is a Go type of the table in C's words.
func cType(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[anyObject]():
		return "id"
	case reflect.TypeFor[block]():
		return "block"
	case reflect.TypeFor[void]():
		return "void"
	case reflect.TypeFor[uint]():
		return "NSUInteger"
	case reflect.TypeFor[int]():
		return "NSInteger"
	case reflect.TypeFor[bool]():
		return "bool"
	case reflect.TypeFor[float64]():
		return "CFTimeInterval"
	case reflect.TypeFor[*byte]():
		return "char*"
	}
	switch {
	case t.Kind() == reflect.UnsafePointer:
		return "void*"
	case t.Kind() == reflect.Pointer:
		return objcName(t.Elem().Name()) + "**"
	case t.Kind() == reflect.Uintptr:
		return objcName(t.Name()) + "*"
	}
	return objcName(t.Name())
}

// table reads the package's own messages.
func table() []entry {
	var all []entry
	tt := reflect.TypeFor[messages]()
	for i := range tt.NumField() {
		f := tt.Field(i)
		call, _ := f.Type.FieldByName("call")
		class, selector, _ := strings.Cut(f.Tag.Get("objc"), " ")
		e := entry{field: f.Name, class: class, of: "-", selector: selector, result: cType(call.Type.Out(0))}
		receiver := call.Type.In(0).Name()
		if of, ok := strings.CutPrefix(receiver, "classOf["); ok {
			e.of = "+"
			receiver = strings.TrimSuffix(of[strings.LastIndex(of, ".")+1:], "]")
		}
		e.receiver = objcName(receiver)
		for k := 2; k < call.Type.NumIn(); k++ {
			e.args = append(e.args, cType(call.Type.In(k)))
		}
		all = append(all, e)
	}
	return all
}

// faults compares messages with the binding, one line for each thing that differs.
func faults(all []entry, f facts) []string {
	var found []string
	for _, e := range all {
		say := func(format string, args ...any) {
			found = append(found, e.field+": "+fmt.Sprintf(format, args...))
		}
		want, ok := f.methods[e.class+" "+e.selector]
		if !ok {
			say("%s has no message %s", e.class, e.selector)
			continue
		}
		at := e.receiver
		for at != e.class && f.conforms[at] != "" {
			at = f.conforms[at]
		}
		if at != e.class {
			say("%s is no %s", e.receiver, e.class)
		}
		if e.of != want.of {
			say("%s%s: want %s%s", e.of, e.selector, want.of, want.selector)
		}
		if e.result != want.result {
			say("%s gives %s: want %s", e.selector, e.result, want.result)
		}
		if n := strings.Count(e.selector, ":"); n != len(want.args) {
			say("%s has %d colons: want %d", e.selector, n, len(want.args))
		}
		if len(e.args) != len(want.args) {
			say("%s has %d arguments: want %d", e.selector, len(e.args), len(want.args))
			continue
		}
		for i := range e.args {
			if e.args[i] != want.args[i] {
				say("%s: argument %d is %s: want %s", e.selector, i, e.args[i], want.args[i])
			}
		}
	}
	return found
}

// Every message of the table is one that the binding has, with its types.
func TestTable(t *testing.T) {
	f := readFacts(t)
	require.Empty(t, faults(table(), f))
	require.Len(t, f.methods, len(table()), "the binding's lines are those that are used")
	require.Equal(t, "NSUInteger NSUInteger NSUInteger", f.types["MTLSize"])
	require.EqualValues(t, 24, reflect.TypeFor[mtlSize]().Size())
}

// Each kind of mistake in the table is found.
func TestTableFaults(t *testing.T) {
	f := readFacts(t)
	for _, c := range []struct {
		field  string
		breaks func(e *entry)
		want   string
	}{
		{"commandsCommit", func(e *entry) { e.selector = "comit" }, "commandsCommit: MTLCommandBuffer has no message comit"},
		{"commandsCommit", func(e *entry) { e.class = "MTLCommandQueue" }, "commandsCommit: MTLCommandQueue has no message commit"},
		{"commandsCommit", func(e *entry) { e.receiver = "MTLCommandQueue" }, "commandsCommit: MTLCommandQueue is no MTLCommandBuffer"},
		{"bufferSetLabel", func(e *entry) { e.receiver = "MTLDevice" }, "bufferSetLabel: MTLDevice is no MTLResource"},
		{"encodeBytes", func(e *entry) { e.args = e.args[:2] }, "encodeBytes: setBytes:length:atIndex: has 2 arguments: want 3"},
		{"encodeBytes", func(e *entry) { e.args = append(e.args, "NSUInteger") }, "encodeBytes: setBytes:length:atIndex: has 4 arguments: want 3"},
		{"encodeBytes", func(e *entry) { e.args = []string{"void*", "NSInteger", "NSUInteger"} }, "encodeBytes: setBytes:length:atIndex:: argument 1 is NSInteger: want NSUInteger"},
		{"deviceNewBuffer", func(e *entry) { e.args[1] = "MTLPipelineOption" }, "deviceNewBuffer: newBufferWithLength:options:: argument 1 is MTLPipelineOption: want MTLResourceOptions"},
		{"deviceNewBuffer", func(e *entry) { e.result = "MTLDevice*" }, "deviceNewBuffer: newBufferWithLength:options: gives MTLDevice*: want MTLBuffer*"},
		{"commandsGPUEnd", func(e *entry) { e.result = "NSUInteger" }, "commandsGPUEnd: GPUEndTime gives NSUInteger: want CFTimeInterval"},
		{"optionsNew", func(e *entry) { e.of = "-" }, "optionsNew: -new: want +new"},
		{"deviceNewLibrary", func(e *entry) { e.args[2] = "NSError*" }, "deviceNewLibrary: newLibraryWithSource:options:error:: argument 2 is NSError*: want NSError**"},
	} {
		all := table()
		i := slices.IndexFunc(all, func(e entry) bool { return e.field == c.field })
		c.breaks(&all[i])
		require.Equal(t, []string{c.want}, faults(all, f), c.want)
	}
}

// enumFaults compares the constants and types of a text of enums.go with the
// binding.
func enumFaults(t *testing.T, text string, f facts) []string {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "enums.go", text, 0)
	require.NoError(t, err)
	pkg, err := (&types.Config{Importer: importer.Default()}).Check("apple", fset, []*ast.File{file}, nil)
	require.NoError(t, err)
	var found []string
	under := map[string]string{"uint": "NSUInteger", "int": "NSInteger"}
	checked := 0
	for _, name := range pkg.Scope().Names() {
		switch o := pkg.Scope().Lookup(name).(type) {
		case *types.TypeName:
			if made := under[o.Type().Underlying().String()]; made != f.types[objcName(name)] {
				found = append(found, fmt.Sprintf("%s is made of %s: want %s", name, made, f.types[objcName(name)]))
			}
		case *types.Const:
			checked++
			n, _ := constant.Int64Val(o.Val())
			of := objcName(o.Type().(*types.Named).Obj().Name())
			want, ok := f.values[objcName(name)]
			// MTLResourceStorageModeShared is one of MTLResourceOptions.
			if stem := strings.TrimSuffix(of, "Options"); !ok || n != want || !strings.HasPrefix(objcName(name), stem) {
				found = append(found, fmt.Sprintf("%s of %s is %d: want %d", name, of, n, want))
			}
		}
	}
	require.Equal(t, len(f.values)-len(scalars), checked, "each scalar's vector is the binding's alone")
	return found
}

// Every constant has the binding's value, every enumeration its width and sign;
// mistakes are found.
func TestEnums(t *testing.T) {
	f := readFacts(t)
	data, err := os.ReadFile("enums.go")
	require.NoError(t, err)
	require.Empty(t, enumFaults(t, string(data), f))
	for _, c := range []struct{ old, new, want string }{
		{"mtlDataType = 33", "mtlDataType = 34", "mtlDataTypeUInt of MTLDataType is 34: want 33"},
		{"mtlBindingType         int", "mtlBindingType         uint", "mtlBindingType is made of NSUInteger: want NSInteger"},
		{"mtlDispatchType = 1", "mtlBarrierScope = 1", "mtlDispatchTypeConcurrent of MTLBarrierScope is 1: want 1"},
	} {
		broken := strings.Replace(string(data), c.old, c.new, 1)
		require.NotEqual(t, string(data), broken, c.old)
		require.Equal(t, []string{c.want}, enumFaults(t, broken, f))
	}
	// Vectors follow their scalars.
	for _, s := range scalars {
		require.Contains(t, []int64{3}, int64(vectorOf(f, int64(s.metal))-int64(s.metal)))
	}
}

// vectorOf is the number of the vector of 4 components of a scalar.
func vectorOf(f facts, scalar int64) int64 {
	for name, n := range f.values {
		if n == scalar && strings.HasPrefix(name, "MTLDataType") {
			return f.values[name+"4"]
		}
	}
	return 0
}

// sources parses the package's files but tests, of every platform.
func sources(t *testing.T) (*token.FileSet, map[string]*ast.File) {
	fset, files := token.NewFileSet(), map[string]*ast.File{}
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		files[name], err = parser.ParseFile(fset, name, nil, 0)
		require.NoError(t, err)
	}
	return fset, files
}

// Nothing sends a message but through the table, and every entry of it is used:
// so the compiler has checked every use against the table.
func TestUses(t *testing.T) {
	fset, files := sources(t)
	sent := map[string]int{}
	for name, file := range files {
		for _, i := range file.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			require.True(t, name == "native_darwin.go" || !strings.Contains(path, "purego") && path != "C", "%s imports %s", name, path)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch f.Sel.Name {
			case "call":
				require.Equal(t, "objc.go", name, "%s: a message past the table", fset.Position(n.Pos()))
			case "send":
				of, ok := f.X.(*ast.SelectorExpr)
				require.True(t, ok, "%s: a message of no field", fset.Position(n.Pos()))
				sent[of.Sel.Name]++
			case "NewBlock":
				require.Equal(t, "native_darwin.go", name, "%s: a block that is no handler", fset.Position(n.Pos()))
			case "Send", "SendSuper", "RegisterClass", "SyscallN":
				require.Fail(t, "a message past the table", "%s", fset.Position(n.Pos()))
			}
			return true
		})
	}
	for _, e := range table() {
		require.Positive(t, sent[e.field], "%s is never sent", e.field)
		delete(sent, e.field)
	}
	require.Empty(t, sent, "sent, but not of the table")
}

// The functions of C that native_darwin.go opens are these, with these types.
func TestFunctions(t *testing.T) {
	_, files := sources(t)
	var opened []string
	ast.Inspect(files["native_darwin.go"], func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			if f, ok := c.Fun.(*ast.Ident); ok && (f.Name == "symbol" || f.Name == "function") {
				if lit, ok := c.Args[len(c.Args)-1].(*ast.BasicLit); ok {
					opened = append(opened, strings.Trim(lit.Value, `"`))
				}
			}
		}
		return true
	})
	require.Equal(t, []string{"objc_msgSend", "objc_msgSend_stret", "objc_retain", "objc_release", "objc_autoreleasePoolPush",
		"objc_autoreleasePoolPop", "MTLCreateSystemDefaultDevice"}, opened)
}

// The compiler refuses a use that does not fit the table.
func TestCompilerRefuses(t *testing.T) {
	for _, c := range []struct{ file, old, new, want string }{
		{"buffer.go", "send(d.dev, uint(size), mtlResourceStorageModeShared)", "send(d.dev, uint(size))", "not enough arguments"},
		{"buffer.go", "send(d.dev, uint(size), mtlResourceStorageModeShared)", "send(d.dev, size, mtlResourceStorageModeShared)", "cannot use size"},
		{"buffer.go", "send(d.dev, uint(size), mtlResourceStorageModeShared)", "send(d.dev, uint(size), mtlDispatchTypeConcurrent)", "cannot use mtlDispatchTypeConcurrent"},
		{"buffer.go", "send(d.dev, uint(size), mtlResourceStorageModeShared)", "send(d.queue, uint(size), mtlResourceStorageModeShared)", "cannot use d.queue"},
		{"command.go", "m.encodeBarrier.send", "m.encodeBarriers.send", "m.encodeBarriers undefined"},
	} {
		data, err := os.ReadFile(c.file)
		require.NoError(t, err)
		broken := strings.Replace(string(data), c.old, c.new, 1)
		require.NotEqual(t, string(data), broken, c.old)
		dir := t.TempDir()
		path := filepath.Join(dir, c.file)
		require.NoError(t, os.WriteFile(path, []byte(broken), 0o644))
		original, err := filepath.Abs(c.file)
		require.NoError(t, err)
		overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: path}})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644))
		out, err := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), ".").CombinedOutput()
		require.Error(t, err, c.new)
		require.Contains(t, string(out), c.want)
	}
}
