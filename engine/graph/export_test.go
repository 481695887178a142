package graph

// PrepareWith makes a plan of a given allocation without Allocation.Check, so
// that tests can plant a wrong one.
func (e *Executor) PrepareWith(g *Graph, a *Assignment, al *Allocation) (*Plan, error) {
	return newPlan(e, g, a, al)
}

// SizeClass is sizeClass.
func SizeClass(n int) int { return sizeClass(n) }
