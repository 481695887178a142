package limits

import "golang.org/x/sys/cpu"

//go:generate go run ./gen -out loops_amd64.s -stubs loops_amd64.go -pkg limits

// floatLoop and byteLoop give the widest loop that the processor has, and the
// multiply-adds of a turn.
func floatLoop() (func(n int), int) {
	switch {
	case cpu.X86.HasAVX512F:
		return floatsAVX512, 192
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return floatsAVX2, 96
	}
	return plainLoop, plainAdds
}

func byteLoop() (func(n int), int) {
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512VNNI:
		return bytesVNNI, 768
	case cpu.X86.HasAVX2:
		return bytesAVX2, 384
	}
	return plainLoop, plainAdds
}

// readLoops are the loops that the processor can run.
func readLoops() []readLoop {
	if !cpu.X86.HasAVX2 {
		return []readLoop{plainRead}
	}
	loops := []readLoop{readAVX2, readAVX2Ahead}
	if cpu.X86.HasAVX512F {
		loops = append(loops, readAVX512, readAVX512Ahead)
	}
	return loops
}
