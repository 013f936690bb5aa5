package python

import "sync"

// A Name is what a Python frame is called.
type Name struct {
	Function string // qualified from 3.11 on; Unknown where it could not be read
	File     string // as the interpreter has it
	Line     int    // 0: none, as of code that no source stands for
	Module   string // path of the interpreter's file
}

// Unknown is the function of a frame whose code object was not there any more as it was looked for.
const Unknown = "[python: unknown]"

// Names numbers Names. Its zero value has none.
type Names struct {
	mu      sync.Mutex
	numbers map[Name]uint64
	all     []Name
	bytes   int // of the texts of all
}

// maxNames and maxNameBytes bound them: what comes later is unknown.
const (
	maxNames     = 1 << 20
	maxNameBytes = 64 << 20
)

// size is what a Name's own texts take, in bytes. Those of a file and a module are counted for each, though many share them.
func (n *Name) size() int { return len(n.Function) + len(n.File) }

// Number returns the number of a Name.
func (n *Names) Number(name Name) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	number, ok := n.numbers[name]
	if ok {
		return number
	}
	if len(n.all) >= maxNames || n.bytes+name.size() > maxNameBytes {
		name = Name{Function: Unknown, Module: Unknown}
		if number, ok = n.numbers[name]; ok {
			return number
		}
	}
	if n.numbers == nil {
		n.numbers = make(map[Name]uint64)
	}
	number = uint64(len(n.all))
	n.all = append(n.all, name)
	n.bytes += name.size()
	n.numbers[name] = number
	return number
}

// At returns the Name with a number.
func (n *Names) At(number uint64) (Name, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if number >= uint64(len(n.all)) {
		return Name{}, false
	}
	return n.all[number], true
}
