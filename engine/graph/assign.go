package graph

// An Assignment gives each node a backend.
type Assignment struct {
	Backends []Backend // highest priority first
	Of       []int     // by Node.ID: index in Backends
	Splits   []Split   // in order; together all nodes
}

// A Split is a run of consecutive nodes of one backend. Inputs belong to
// whichever split surrounds them.
type Split struct {
	Backend     int // index in Assignment.Backends
	First, Last int // node IDs, inclusive
}

// Assign gives each node the first backend that supports it. The KV nodes and
// the attention of a layer go together to the first backend that supports all
// three for the cache's type.
func Assign(g *Graph, backends []Backend, force map[Op]string) (*Assignment, error) {
	return nil, errSkeleton
}

// Fuse merges nodes where their backend can run the fused op.
func Fuse(g *Graph, a *Assignment) (*Graph, *Assignment) { return g, a }

// Validate checks the graph.
func Validate(g *Graph) error { return errSkeleton }

// An Allocation says where each value lives.
type Allocation struct{}

// Allocate plans the buffers.
func Allocate(g *Graph, a *Assignment, noReuse bool) (*Allocation, error) { return nil, errSkeleton }
