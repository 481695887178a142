package graph

// Gate is the weights gate: backends that hold weights of their own (see
// WeightHolder) take part in a graph only if each of them holds every weight that
// the graph reads. It is open if there is such a backend and none lacks a weight;
// missing is the first weight, in the order given, that one of them lacks.
//
// Where it is closed, the graph's Params have GPU false and its nodes go to the
// other backends: to hand over some nodes of a graph would move bits from one
// arithmetic to another by the accident of a registration.
func Gate(backends []Backend, weights []*Weight) (missing *Weight, open bool) {
	var holders []WeightHolder
	for _, b := range backends {
		if h, ok := b.(WeightHolder); ok {
			holders = append(holders, h)
		}
	}
	for _, w := range weights {
		for _, h := range holders {
			if !h.Holds(w) {
				return w, false
			}
		}
	}
	return nil, len(holders) > 0
}

// Ungated are the backends that take part whether the gate is open or not: those
// that read weights from memory that all share.
func Ungated(backends []Backend) []Backend {
	var rest []Backend
	for _, b := range backends {
		if _, ok := b.(WeightHolder); !ok {
			rest = append(rest, b)
		}
	}
	return rest
}
