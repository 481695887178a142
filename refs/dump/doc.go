// Package dump is the recorded form of llama.cpp's node values: what the live
// oracle hands out during one greedy run, small enough to keep in git.
//
// A run is one model file, one weight type, one KV type and one CPU variant,
// evaluated one token at a time. Its [Header] says where it comes from; for
// every compute node of docs/numerics.md section 12 it holds the hash of the
// node's float32 bytes at every position, and the values themselves for the
// first few positions if the recorder asked for them.
//
// The package defines the [Key] that names one node value, shared by the
// recorder (refs/llamacpp), by the recorded files and by the suite that holds
// the engine against either. It opens no library and computes nothing but
// hashes.
//
// Size: 8 bytes for each node and position, and about 4 for each element kept,
// since neither hashes nor activations compress. A tiny model (4 layers, 106
// nodes) with 64 positions is 52 KB, and 110 KB more for each position whose
// values are kept. Three models' worth of eleven weight types and two KV types
// stay below 5 MB.
//
// Order of use: [NewBuilder], [Builder.Add] for every value of every position
// in order, [Builder.Finish], [Run.Encode]; later [Decode], then [Run.Check]
// for each value of the engine, or [Run.Node], [Run.Hash] and [Run.Values].
// Encode is deterministic: the same values give the same bytes.
//
// A Run is read-only and safe for concurrent use; a Builder is not.
package dump
