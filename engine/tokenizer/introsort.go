package tokenizer

import "math/bits"

// introsort sorts as the C++ library of GNU does with std::sort, which is not
// stable: the order of elements that compare equal is this algorithm's. Special
// tokens of one length are searched for in that order, and where two of them
// overlap in a text the first one wins, so the ids depend on it.
//
// The algorithm is quicksort with the median of three as the pivot, down to runs
// of 16, heapsort where the recursion gets deeper than twice the logarithm, and
// one insertion sort over the whole at the end.
func introsort(s []int32, less func(a, b int32) bool) {
	if len(s) == 0 {
		return
	}
	quickLoop(s, 2*(bits.Len(uint(len(s)))-1), less)
	insertionSort(s, less)
}

const insertionRun = 16

func quickLoop(s []int32, depth int, less func(a, b int32) bool) {
	for len(s) > insertionRun {
		if depth == 0 {
			heapSort(s, less)
			return
		}
		depth--
		medianToFront(s, 1, len(s)/2, len(s)-1, less)
		cut := 1 + partitionAround(s[1:], s[0], less)
		quickLoop(s[cut:], depth, less)
		s = s[:cut]
	}
}

// medianToFront swaps the median of three elements with the first.
func medianToFront(s []int32, a, b, c int, less func(a, b int32) bool) {
	m := a
	switch ab, bc, ac := less(s[a], s[b]), less(s[b], s[c]), less(s[a], s[c]); {
	case ab && bc, !ab && !ac && !bc:
		m = b
	case ab && ac, !ab && !ac && bc:
		m = c
	}
	s[0], s[m] = s[m], s[0]
}

// partitionAround puts what is less than the pivot before the rest and gives the
// rest's start. The median of three bounds both searches.
func partitionAround(s []int32, pivot int32, less func(a, b int32) bool) int {
	i, j := 0, len(s)
	for {
		for less(s[i], pivot) {
			i++
		}
		j--
		for less(pivot, s[j]) {
			j--
		}
		if i >= j {
			return i
		}
		s[i], s[j] = s[j], s[i]
		i++
	}
}

func insertionSort(s []int32, less func(a, b int32) bool) {
	for i, v := range s {
		j := i
		for j > 0 && less(v, s[j-1]) {
			s[j] = s[j-1]
			j--
		}
		s[j] = v
	}
}

func heapSort(s []int32, less func(a, b int32) bool) {
	for i := len(s)/2 - 1; i >= 0; i-- {
		siftDown(s, i, s[i], less)
	}
	for n := len(s) - 1; n > 0; n-- {
		v := s[n]
		s[n] = s[0]
		siftDown(s[:n], 0, v, less)
	}
}

// siftDown moves the hole at i down to a leaf along the greater children, then v
// up from there to its place, not above i.
func siftDown(s []int32, i int, v int32, less func(a, b int32) bool) {
	top := i
	for 2*i+1 < len(s) {
		child := 2*i + 2
		if child == len(s) || less(s[child], s[child-1]) {
			child--
		}
		s[i] = s[child]
		i = child
	}
	for i > top {
		up := (i - 1) / 2
		if !less(s[up], v) {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = v
}
