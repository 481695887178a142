// Package signatures reads the arguments of kernels from their source, for devices
// whose own compiler tells less of them: whether one is a reference, and what
// threadgroup memory is made of.
//
// [Of] compiles the source with the front end of metal/msl. It has no state and is
// safe for concurrent use.
package signatures

import (
	"minfer/metal/msl"
	"minfer/metal/msl/ir"
	"minfer/metal/mtl"
)

// Of gives the arguments of each kernel that a source defines, by host name, in
// the order of the source. An argument that a function constant decides is among
// them. A source with an error is an error.
func Of(source mtl.Source) (map[string][]mtl.Argument, error) {
	lib, err := msl.CompileText(source.Name, source.Text, source.Include, source.Defines, msl.Options{Safe: !source.FastMath})
	if err != nil {
		return nil, err
	}
	all := map[string][]mtl.Argument{}
	for _, k := range lib.Kernels() {
		args := []mtl.Argument{}
		for _, p := range k.Params {
			args = append(args, mtl.Argument{
				Name: p.Name, Threadgroup: p.Kind == ir.ThreadgroupParam, Index: p.Index,
				Elem: p.Elem, ElemSize: p.ElemSize, Scalar: mtl.MSLType(p.Scalar), ReadOnly: p.ReadOnly, Ref: p.Ref,
			})
		}
		all[k.Name] = args
	}
	return all, nil
}
