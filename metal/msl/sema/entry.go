package sema

import (
	"fmt"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/ir"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

// Limits of the language's feature tables.
const (
	maxThreads     = 1024
	maxTgMemory    = 32 << 10
	maxBufferIndex = 30
	maxTgIndex     = 30
	maxFuncConst   = 65535
)

// gridInfo says what a grid attribute is and which types it may have.
type gridInfo struct {
	kind   ir.GridKind
	vector bool
	group  gridGroup
}

// gridGroup joins attributes that must share a type within one signature.
type gridGroup uint8

const (
	noGroup gridGroup = iota
	gridPosition
	threadgroupPosition
	simdIndex
)

var gridAttrs = map[string]gridInfo{
	"thread_position_in_grid":             {ir.ThreadPositionInGrid, true, gridPosition},
	"threads_per_grid":                    {ir.ThreadsPerGrid, true, gridPosition},
	"grid_origin":                         {ir.GridOrigin, true, noGroup},
	"grid_size":                           {ir.GridSize, true, noGroup},
	"threadgroup_position_in_grid":        {ir.ThreadgroupPositionInGrid, true, noGroup},
	"threadgroups_per_grid":               {ir.ThreadgroupsPerGrid, true, noGroup},
	"thread_position_in_threadgroup":      {ir.ThreadPositionInThreadgroup, true, threadgroupPosition},
	"threads_per_threadgroup":             {ir.ThreadsPerThreadgroup, true, threadgroupPosition},
	"dispatch_threads_per_threadgroup":    {ir.DispatchThreadsPerThreadgroup, true, threadgroupPosition},
	"thread_index_in_threadgroup":         {ir.ThreadIndexInThreadgroup, false, noGroup},
	"thread_index_in_simdgroup":           {ir.ThreadIndexInSimdgroup, false, simdIndex},
	"simdgroup_index_in_threadgroup":      {ir.SimdgroupIndexInThreadgroup, false, simdIndex},
	"simdgroups_per_threadgroup":          {ir.SimdgroupsPerThreadgroup, false, simdIndex},
	"dispatch_simdgroups_per_threadgroup": {ir.DispatchSimdgroupsPerThreadgroup, false, simdIndex},
	"threads_per_simdgroup":               {ir.ThreadsPerSimdgroup, false, simdIndex},
	"thread_execution_width":              {ir.ThreadsPerSimdgroup, false, simdIndex},
	"thread_index_in_quadgroup":           {ir.ThreadIndexInQuadgroup, false, simdIndex},
	"quadgroup_index_in_threadgroup":      {ir.QuadgroupIndexInThreadgroup, false, simdIndex},
	"quadgroups_per_threadgroup":          {ir.QuadgroupsPerThreadgroup, false, simdIndex},
	"dispatch_quadgroups_per_threadgroup": {ir.QuadgroupsPerThreadgroup, false, simdIndex},
}

// attrNamed finds an attribute.
func attrNamed(as []*ast.Attr, name string) *ast.Attr {
	for _, a := range as {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// hostName gives host_name's argument.
func (c *checker) hostName(as []*ast.Attr) string {
	a := attrNamed(as, "host_name")
	if a == nil {
		return ""
	}
	if len(a.Args) == 1 {
		if s, ok := a.Args[0].(*ast.StringLit); ok && s.Value != "" {
			return s.Value
		}
	}
	c.errorf(a, "host_name needs a string that is not empty")
	return ""
}

// failedKernel records an entry point whose declaration did not check.
func (c *checker) failedKernel(name string, d *ast.FuncDecl) {
	host := c.hostName(d.Attrs)
	if host == "" {
		host = name
	}
	c.addKernel(&Kernel{HostName: host, Name: name, Pos: d.Start, Errors: lastErrors(c.sink)})
}

// lastErrors copies the newest error of a sink.
func lastErrors(s *sink) []source.Diag {
	for i := len(s.diags) - 1; i >= 0; i-- {
		if s.diags[i].Severity == source.Error {
			return []source.Diag{s.diags[i]}
		}
	}
	return []source.Diag{{Msg: "the declaration has errors"}}
}

func (c *checker) addKernel(k *Kernel) {
	if c.hosts == nil {
		c.hosts = map[string]*Kernel{}
	}
	if old := c.hosts[k.HostName]; old != nil {
		d := source.Errorf(span(k.Pos), "host name '%s' is used twice: kernels are not overloaded", k.HostName).Note(span(old.Pos), "used here before")
		c.report(d)
		k.Errors = append(k.Errors, d)
	} else {
		c.hosts[k.HostName] = k
	}
	c.prog.Kernels = append(c.prog.Kernels, k)
}

// kernel makes the entry point of a checked kernel function.
func (c *checker) kernel(f *Func, d *ast.FuncDecl, s *scope, host string, attrs []*ast.Attr) {
	k := &Kernel{Name: f.Name, Func: f, Pos: d.Name.Span().Start, HostName: host}
	f.checker.kernel = true
	t := c.trap(func() {
		if k.HostName == "" {
			k.HostName = c.hostName(attrs)
		}
		c.kernelSignature(k, f, d)
	})
	if k.HostName == "" {
		k.HostName = f.checker.decl.name
	}
	for _, g := range t.diags {
		c.sink.diags = append(c.sink.diags, g)
		if g.Severity == source.Error {
			c.sink.errs++
			k.Errors = append(k.Errors, g)
		}
	}
	c.addKernel(k)
	c.queue(f)
}

func (c *checker) kernelSignature(k *Kernel, f *Func, d *ast.FuncDecl) {
	if f.Result.T.Kind != types.Void {
		c.errorf(d.Name, "kernel '%s' returns '%s', expected void", f.Name, f.Result)
	}
	if f.This != nil {
		c.errorf(d, "kernel '%s' is a method", f.Name)
	}
	if a := attrNamed(d.Attrs, "max_total_threads_per_threadgroup"); a != nil && len(a.Args) == 1 {
		if n, ok := c.constInt(f.checker.scope, a.Args[0], "max_total_threads_per_threadgroup"); ok {
			if n < 1 || n > maxThreads {
				c.errorf(a, "max_total_threads_per_threadgroup is %d, expected 1 to %d", n, maxThreads)
			} else {
				k.MaxThreads = int(n)
			}
		}
	}
	if len(f.Params) != len(d.Params) {
		c.errorf(d, "parameter packs are not allowed in a kernel's signature")
		return
	}
	for i, p := range d.Params {
		if kp := c.kernelParam(f, f.Params[i], p); kp != nil {
			k.Params = append(k.Params, kp)
		}
	}
	c.number(k)
	c.gridRules(k)
}

// kernelParam classifies a parameter.
func (c *checker) kernelParam(f *Func, v *Var, p *ast.ParamDecl) *Param {
	kp := &Param{Var: v, Index: -1}
	q := v.Type
	var space types.Space
	ref := false
	switch q.T.Kind {
	case types.Pointer:
		space = q.T.Of.Space
	case types.Reference:
		space, ref = q.T.Of.Space, true
	}
	for _, a := range p.Attrs {
		if g, ok := gridAttrs[a.Name]; ok {
			kp.Kind, kp.Grid = GridParam, g.kind
			c.gridType(v, g, a)
			return kp
		}
		switch a.Name {
		case "buffer", "threadgroup", "texture", "sampler":
			kp.Index = c.indexAttr(f, a)
		case "function_constant":
			kp.Gate = c.gate(f, a)
		case "stage_in", "vertex_id", "instance_id", "position", "base_vertex", "base_instance", "patch_id", "amplification_id":
			c.errorf(a, "attribute '%s' is not allowed in a kernel", a.Name)
			return nil
		}
	}
	if q.T.Kind == types.Texture || ref && q.T.Of.T.Kind == types.Texture || isTextureArray(q.T) {
		kp.Kind = ResourceParam
		return kp
	}
	if q.T.Kind != types.Pointer && q.T.Kind != types.Reference {
		c.errorf(p, "kernel parameter '%s' of type '%s' has no grid attribute: expected one, or a pointer or reference to device, constant or threadgroup", v.Name, q)
		return nil
	}
	of := q.T.Of
	switch space {
	case types.Device, types.Constant:
		kp.Kind = BufferParam
	case types.Threadgroup:
		kp.Kind = ThreadgroupParam
	default:
		c.errorf(p, "kernel parameter '%s' points to %s address space, expected device, constant or threadgroup", v.Name, spaceWord(space))
		return nil
	}
	if of.T.Kind == types.Function || of.T.Kind == types.SgMatrix || ref && of.T.Kind == types.Void {
		c.errorf(p, "kernel parameter '%s' of type '%s'", v.Name, q)
		return nil
	}
	if of.T.Kind != types.Void && !c.needComplete(of.T, p.Span()) {
		return nil
	}
	if kp.Kind == ThreadgroupParam && attrNamed(p.Attrs, "buffer") != nil || kp.Kind == BufferParam && attrNamed(p.Attrs, "threadgroup") != nil {
		c.errorf(p, "kernel parameter '%s' in %s address space has the other kind's attribute", v.Name, space)
	}
	return kp
}

func isTextureArray(t *types.Type) bool {
	r := recordOf(t)
	return r != nil && len(t.Fields) == 1 && t.Fields[0].Type.T.Kind == types.Array && t.Fields[0].Type.T.Of.T.Kind == types.Texture
}

func spaceWord(s types.Space) string {
	if s == types.NoSpace {
		return "no"
	}
	return s.String()
}

func (c *checker) indexAttr(f *Func, a *ast.Attr) int {
	if len(a.Args) != 1 {
		c.errorf(a, "attribute '%s' needs an index", a.Name)
		return -1
	}
	n, ok := c.constInt(f.checker.scope, a.Args[0], a.Name+" index")
	if !ok {
		return -1
	}
	limit := int64(maxBufferIndex)
	if a.Name == "threadgroup" {
		limit = maxTgIndex
	} else if a.Name == "texture" {
		limit = 127
	}
	if n < 0 || n > limit {
		c.errorf(a, "%s index %d, expected 0 to %d", a.Name, n, limit)
		return -1
	}
	return int(n)
}

// gate finds the function constant that decides about a parameter.
func (c *checker) gate(f *Func, a *ast.Attr) *Var {
	if len(a.Args) == 1 {
		e := c.expr(f.checker.scope, a.Args[0])
		if isBad(e) {
			return nil
		}
		if v, ok := e.(*VarRef); ok {
			if v.Var.Type.T.Kind != types.Bool {
				c.errorf(a, "function_constant(%s) has type '%s', expected bool", v.Var.Name, v.Var.Type.T)
				return nil
			}
			if v.Var.Kind == FuncConstVar || v.Var.Kind == GlobalVar {
				return v.Var
			}
		}
	}
	c.errorf(a, "function_constant needs the name of a bool function constant")
	return nil
}

// gridType checks the type of a grid attribute.
func (c *checker) gridType(v *Var, g gridInfo, a *ast.Attr) {
	t := v.Type.T
	if t.Kind == types.Reference {
		t = t.Of.T
	}
	k := t.ScalarKind()
	ok := (k == types.UInt || k == types.UShort) && (t.IsScalar() || g.vector && t.Kind == types.Vector && t.N <= 3)
	if ok {
		return
	}
	want := "ushort or uint"
	if g.vector {
		want = "ushort, ushort2, ushort3, uint, uint2 or uint3"
	}
	c.errorf(a, "parameter '%s' with attribute '%s' has type '%s', expected %s", v.Name, a.Name, v.Type, want)
}

// number gives implicit indices: each kind of resource counts its own lowest free one in
// order of declaration.
func (c *checker) number(k *Kernel) {
	used := map[ParamKind]map[int]*Param{BufferParam: {}, ThreadgroupParam: {}, ResourceParam: {}}
	for _, p := range k.Params {
		if p.Kind == GridParam || p.Index < 0 {
			continue
		}
		if old := used[p.Kind][p.Index]; old != nil && p.Kind != ResourceParam && (old.Gate == nil || p.Gate == nil) {
			c.report(source.Errorf(span(p.Var.Pos), "index %d of parameter '%s' is taken", p.Index, p.Var.Name).Note(span(old.Var.Pos), "by '%s'", old.Var.Name))
		}
		used[p.Kind][p.Index] = p
	}
	for _, p := range k.Params {
		if p.Kind == GridParam || p.Index >= 0 {
			continue
		}
		i := 0
		for used[p.Kind][i] != nil {
			i++
		}
		p.Index = i
		used[p.Kind][i] = p
		if p.Kind == BufferParam && i > maxBufferIndex || p.Kind == ThreadgroupParam && i > maxTgIndex {
			c.errAt(span(p.Var.Pos), "parameter '%s' would be number %d, expected at most %d", p.Var.Name, i, maxBufferIndex)
		}
	}
}

// gridRules checks how grid attributes of one signature go together.
func (c *checker) gridRules(k *Kernel) {
	infos := map[ir.GridKind]gridInfo{}
	names := map[ir.GridKind]string{}
	for name, g := range gridAttrs {
		if names[g.kind] == "" || name < names[g.kind] {
			infos[g.kind], names[g.kind] = g, name
		}
	}
	typeOf := func(p *Param) *types.Type {
		if t := p.Var.Type.T; t.Kind == types.Reference {
			return t.Of.T
		}
		return p.Var.Type.T
	}
	var width *Param
	group := map[gridGroup]*Param{}
	var seen = map[ir.GridKind]*Param{}
	for _, p := range k.Params {
		if p.Kind != GridParam {
			continue
		}
		g, t := infos[p.Grid], typeOf(p)
		if k := t.ScalarKind(); k != types.UInt && k != types.UShort {
			continue // reported
		}
		seen[p.Grid] = p
		if g.vector {
			if width != nil && typeOf(width).Lanes() != t.Lanes() {
				c.report(source.Errorf(span(p.Var.Pos), "grid attributes differ in components: '%s' (%s) is '%s'", p.Var.Name, names[p.Grid], t).
					Note(span(width.Var.Pos), "'%s' (%s) is '%s'", width.Var.Name, names[width.Grid], typeOf(width)))
			} else if width == nil {
				width = p
			}
		}
		if g.group != noGroup {
			if o := group[g.group]; o != nil && typeOf(o) != t {
				c.report(source.Errorf(span(p.Var.Pos), "'%s' (%s) is '%s', expected the type of '%s' (%s)", p.Var.Name, names[p.Grid], t, o.Var.Name, names[o.Grid]).
					Note(span(o.Var.Pos), "'%s' is '%s'", o.Var.Name, typeOf(o)))
			} else if o == nil {
				group[g.group] = p
			}
		}
	}
	pos, idx := seen[ir.ThreadPositionInThreadgroup], seen[ir.ThreadIndexInThreadgroup]
	if pos != nil && idx != nil && typeOf(pos).ScalarKind() == types.UInt && typeOf(idx).ScalarKind() != types.UInt {
		c.errAt(span(idx.Var.Pos), "'%s' (thread_index_in_threadgroup) is '%s', expected uint as thread_position_in_threadgroup is", idx.Var.Name, typeOf(idx))
	}
}

// funcConst declares a function constant.
func (c *checker) funcConst(s *scope, d *ast.VarDecl, a *ast.Attr, v *Var, q types.Qual) *Var {
	if len(a.Args) != 1 {
		c.errorf(a, "function_constant needs an index")
		return nil
	}
	n, ok := c.constInt(s, a.Args[0], "function constant index")
	if !ok {
		return nil
	}
	switch {
	case n < 0 || n > maxFuncConst:
		c.errorf(a, "function constant index %d, expected 0 to %d", n, maxFuncConst)
		return nil
	case d.Init != nil:
		c.errorf(d.Init, "function constant '%s' can't have an initialiser", v.Name)
		return nil
	case !q.T.IsScalar() && q.T.Kind != types.Vector:
		c.errorf(d, "function constant '%s' has type '%s', expected a scalar or vector", v.Name, q.T)
		return nil
	case q.Space != types.Constant:
		c.errorf(d, "function constant '%s' must be in address space 'constant'", v.Name)
		return nil
	}
	v.Kind, v.FuncConst, v.Type = FuncConstVar, int(n), types.Qual{T: q.T, Const: true, Space: types.Constant}
	for _, o := range c.prog.Constants {
		if o.FuncConst == v.FuncConst && o.Name != v.Name {
			c.report(source.Errorf(span(v.Pos), "function constant index %d of '%s' is taken", n, v.Name).Note(span(o.Pos), "by '%s'", o.Name))
			return nil
		}
	}
	c.prog.Constants = append(c.prog.Constants, v)
	return v
}

// instanceDecl checks an explicit instantiation.
func (c *checker) instanceDecl(s *scope, d *ast.InstanceDecl) {
	switch in := d.Decl.(type) {
	case *ast.RecordDecl:
		if in.Name == nil {
			return
		}
		q := c.typ(s, &ast.NamedType{Range: in.Range, Name: in.Name})
		if !bad(q) {
			c.needComplete(q.T, in.Span())
		}
	case *ast.FuncDecl:
		c.funcInstance(s, in, in.Name, in.Attrs, in.Specs, func() *types.Type {
			var ps []types.Qual
			for _, p := range in.Params {
				q := c.paramType(s, p)
				if bad(q) {
					return nil
				}
				ps = append(ps, q.Bare())
			}
			res := c.typ(s, in.Result)
			if bad(res) {
				return nil
			}
			return types.FuncOf(res, ps)
		})
	case *ast.VarDecl:
		c.funcInstance(s, in, in.Name, in.Attrs, in.Specs, func() *types.Type {
			q := c.typ(s, in.Type)
			if bad(q) {
				return nil
			}
			if q.T.Kind != types.Function {
				c.errorf(in.Type, "explicit instantiation with type '%s', expected a function type", q)
				return nil
			}
			return q.T
		})
	default:
		c.errorf(d, "this can't be instantiated explicitly")
	}
}

// funcInstance instantiates a function template explicitly; ft gives its type.
func (c *checker) funcInstance(s *scope, d ast.Decl, name *ast.Name, attrs []*ast.Attr, specs ast.Specs, ft func() *types.Type) {
	var f *Func
	host := ""
	isKernel := specs&ast.Kernel != 0
	var tmpl *fnDecl
	t := c.trap(func() {
		host = c.hostName(attrs)
		r, ok := c.resolve(s, name)
		if !ok {
			return
		}
		if r.sym.kind != symFunc {
			c.errorf(name, "'%s' is a %s, expected a function template", r.sym.name, r.sym.kind)
			return
		}
		for _, fd := range r.sym.fns {
			if fd.tparams != nil {
				tmpl = fd
				isKernel = isKernel || fd.ast.Specs&ast.Kernel != 0
			}
		}
		if tmpl == nil {
			c.errorf(name, "explicit instantiation of '%s', which is not a template", r.sym.name)
			return
		}
		want := ft()
		if want == nil {
			return
		}
		set := &overloadSet{Node: Node{T: types.Q(types.VoidType), Where: name.Start}, name: r.sym.name, part: r.part, scope: s}
		for _, fd := range r.sym.fns {
			if fd.tparams != nil {
				set.fns = append(set.fns, fd)
			}
		}
		var why string
		if f, why = c.matchFuncType(set, want); f == nil {
			c.errorf(name, "no instance of '%s' has type '%s'%s", r.sym.name, want, why)
		}
	})
	c.sink.diags = append(c.sink.diags, t.diags...)
	c.sink.errs += t.errs
	if !isKernel {
		if f != nil {
			c.queue(f)
		}
		return
	}
	if f == nil || t.errs > 0 {
		if host == "" {
			host = name.Last().Ident
		}
		k := &Kernel{HostName: host, Name: nameString(name), Pos: d.Span().Start}
		for _, g := range t.diags {
			if g.Severity == source.Error {
				k.Errors = append(k.Errors, g)
			}
		}
		if len(k.Errors) == 0 {
			k.Errors = lastErrors(c.sink)
		}
		c.addKernel(k)
		return
	}
	def := f.checker.def
	if def == nil {
		e := source.Errorf(d.Span(), "explicit instantiation of '%s', which has no body here", f.Name)
		c.report(e)
		c.addKernel(&Kernel{HostName: host, Name: f.Name, Pos: d.Span().Start, Errors: []source.Diag{e}})
		return
	}
	c.push(d.Span(), "in instantiation of '%s' requested here", f.Name)
	c.kernel(f, def, s, host, def.Attrs)
	c.pop()
}

// checkMemory sums the threadgroup variables that a kernel reaches.
func (c *checker) checkMemory(k *Kernel, vars []*Var) {
	total := 0
	for _, v := range vars {
		a := max(v.Type.T.Align(), v.Align)
		total = (total+a-1)/a*a + v.Type.T.Size()
	}
	if total > maxTgMemory {
		// It compiles; no pipeline can be made of it.
		c.top.diags = append(c.top.diags, source.Warningf(span(k.Pos), "kernel '%s' uses %d bytes of threadgroup memory, a pipeline can have at most %d", k.Name, total, maxTgMemory))
	}
}

func (k *Kernel) String() string { return fmt.Sprintf("%s (%s)", k.HostName, k.Name) }
