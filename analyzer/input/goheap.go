package input

// GoHeap is what a Go program's own memory profile says, as it was read from outside (analyzer/goheap). Each replaces the one before on
// the same program.
type GoHeap struct {
	PID       uint32
	Now       uint64 // ns, CLOCK_MONOTONIC: when it was read
	Problem   string // why there is no profile; then nothing below is set
	Version   string // of Go
	FoundBy   string // symbols, code
	Rate      uint64 // one sample in so many bytes, on average; 1: every block
	Cycles    uint32 // garbage collections that it knows of
	BeforeGC  bool   // none has ended yet
	Unsettled bool   // sites may be as of different collections
	Cut       bool   // the oldest samples were not read: there are too many
	Sites     []GoSite
}

// GoStacks are call stacks of a program's memory profile. They come before the first GoHeap that names them.
type GoStacks struct {
	PID    uint32
	Stacks []GoStack
}

// A GoStack is a call stack that was not told of before.
type GoStack struct {
	Number uint32 // among those of its program
	Frames []*Frame
}

// A GoSite is what a call stack has allocated and still has.
type GoSite struct {
	Stack       uint32 // GoStack.Number; one that was never told: all others
	Live, Alloc GoFigure
}

// A GoFigure is what samples stand for, with the standard errors of that.
type GoFigure struct {
	Samples, Count, Bytes, CountSE, BytesSE uint64
}

func (GoStacks) input() {}
func (GoHeap) input()   {}
