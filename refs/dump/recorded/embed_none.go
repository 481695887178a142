//go:build noembed

package recorded

import "io/fs"

// FS is nil: this build has no recorded runs.
func FS() fs.FS { return nil }
