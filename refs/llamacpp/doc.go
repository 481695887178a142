// Package llamacpp is the live oracle: libllama and libggml opened at run time
// from a directory, so that this project's engine can be held against the real
// thing, token by token, node by node and operator by operator.
//
// No cgo: the libraries are opened with purego on linux/amd64. On other
// platforms, and with the build tag static, [Open] returns an error that says
// so, and everything else compiles. The layouts of the C structures are those
// of docs/numerics.md section 13 (llama.cpp v0.4.0); Open checks what it can
// see of them and refuses a library that looks different.
//
// The package is for comparison and for the recording of dumps; nothing that
// it returns may be used to compute a result of the engine.
//
// Order of use: [Open] with a directory and a CPU variant ("haswell", "zen4"),
// then [Lib.LoadModel], [Model.NewContext], [Context.Eval]; or
// [Model.Record] for the canonical stream of node values that refs/dump
// records; or the type traits ([Lib.VecDot]...) and single operators
// ([Lib.MulMat]...), which need no model.
//
// ggml keeps its list of CPU variants for the whole process and can't take one
// back, so the first Open decides directory and variant; another one is an
// error. The libraries stay mapped until the process ends; Close frees models,
// contexts and log.
//
// The defaults are the settings of docs/numerics.md: no repacking, flash
// attention off, one token per micro-batch, one thread. ggml aborts the process
// on a shape that it does not like: the operators here check their arguments
// first, and return an error instead.
//
// A Lib is safe for concurrent use; a Model's tokenizer too; a Context is not.
package llamacpp
