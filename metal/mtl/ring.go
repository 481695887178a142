package mtl

// LabelRing is the number of dispatch labels that a failed Submit reports.
const LabelRing = 16

// Ring keeps the last LabelRing labels that were added. The zero value is empty.
type Ring struct {
	labels [LabelRing]string
	n      int
}

// Add appends a label, dropping the oldest of a full ring.
func (r *Ring) Add(label string) {
	r.labels[r.n%LabelRing] = label
	r.n++
}

// Last gives the labels, oldest first.
func (r *Ring) Last() []string {
	kept := min(r.n, LabelRing)
	last := make([]string, 0, kept)
	for i := r.n - kept; i < r.n; i++ {
		last = append(last, r.labels[i%LabelRing])
	}
	return last
}
