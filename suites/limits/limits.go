// Package limits measures what a machine can do at the most, for rates to be put
// beside: how fast memory is read, and how many multiply-adds are made, by plain
// loops that do nothing else. On a processor these are [ReadLoop] and
// [MultiplyAdds]; on a Metal device plain kernels, [Device] and
// [Matrices].
package limits

// rounds is how often a loop is timed; the fastest counts.
const rounds = 5
