//go:build !amd64

package limits

func floatLoop() (func(n int), int) { return plainLoop, plainAdds }

func byteLoop() (func(n int), int) { return plainLoop, plainAdds }

func readLoops() []readLoop { return []readLoop{plainRead} }
