package cli

import "os"

// TempDir makes a folder for a command's own files, which the caller removes: where
// the system keeps such, or, where that is missing, as in an empty root, below the
// current folder.
func TempDir(program string) (string, error) {
	dir, err := os.MkdirTemp("", program+"-")
	if err != nil {
		if here, failed := os.MkdirTemp(".", program+"-"); failed == nil {
			return here, nil
		}
	}
	return dir, err
}
