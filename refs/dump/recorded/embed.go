//go:build !noembed

package recorded

import (
	"embed"
	"io/fs"
)

//go:embed data/*.dump
var files embed.FS

// FS holds the recorded runs by file name; nil in a build without them.
func FS() fs.FS {
	sub, err := fs.Sub(files, "data")
	if err != nil {
		panic("recorded: " + err.Error()) // "data" is a valid path
	}
	return sub
}
