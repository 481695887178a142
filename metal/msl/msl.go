// Package msl is the Metal Shading Language front end: source text to typed IR.
//
// It is a compiler in the usual phases (preprocessor, lexer, parser, type
// checker with template instantiation, lowering to a structured SSA form) and
// knows no device: metal/mtl/soft interprets what it gives, metal/mtl/cuda prints
// it as CUDA C++.
package msl
