// Package recorded embeds the runs of llama.cpp that were recorded for this
// project, so that its node values can be checked where the library is not at
// hand. The files' headers say what made them; `mverify record` writes them
// again. With the build tag noembed the set is empty.
package recorded
