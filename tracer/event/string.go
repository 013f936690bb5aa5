package event

// kindNames are the words that --events prints and --kind accepts.
var kindNames = [...]string{
	Alloc: "alloc", Free: "free", Realloc: "realloc",
	AllocFailed: "alloc-failed", ReallocFailed: "realloc-failed",
	Mmap: "mmap", Munmap: "munmap", Fault: "fault",
	Fork: "fork", Exec: "exec", Exit: "exit",
	PoolBegin: "pool-begin", PoolChange: "pool-change", Mremap: "mremap",
}

// String returns the kind's word, such as "alloc".
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "unknown"
}

// ParseKind returns the Kind of a word that String returns.
func ParseKind(word string) (Kind, bool) {
	for k, name := range kindNames {
		if name == word && name != "" {
			return Kind(k), true
		}
	}
	return 0, false
}

// Kinds lists the words that ParseKind accepts.
func Kinds() []string {
	var out []string
	for _, name := range kindNames {
		if name != "" {
			out = append(out, name)
		}
	}
	return out
}

// changeNames are the words that --events prints.
var changeNames = [...]string{
	PoolClearedAlone: "cleared-alone", PoolCleared: "cleared", PoolEnded: "ended",
	PoolChildrenCleared: "children-cleared", PoolChildrenEnded: "children-ended",
	PoolMoved: "moved", PoolNamed: "named",
}

// String returns the change's word, such as "cleared".
func (c Change) String() string {
	if int(c) < len(changeNames) && changeNames[c] != "" {
		return changeNames[c]
	}
	return "unknown"
}
