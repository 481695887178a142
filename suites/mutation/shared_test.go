package mutation

import (
	"sync"

	"minfer/metal/kernels"
)

// own are the project's kernels, parsed once for all tests.
var own = sync.OnceValues(func() (*Sources, error) { return Parse(kernels.FS) })

// ownMutants are all of theirs.
var ownMutants = sync.OnceValue(func() []*Mutant {
	s, err := own()
	if err != nil {
		return nil
	}
	return s.Mutants()
})
