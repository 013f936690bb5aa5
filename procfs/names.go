package procfs

// MoreNames stands for a path for which Names had no room.
const MoreNames = "[more]"

// DefaultNameRoom is how many bytes of different paths Names keeps where it is
// not told otherwise. Real processes map some thousand files at most.
const DefaultNameRoom = 8 << 20

// Names keeps the paths of a process's mappings, each once: a process may map
// one file 65,530 times, by a path of 4,096 bytes, which are 256 MB. The zero
// value is ready.
type Names struct {
	Room int // bytes; 0 means DefaultNameRoom
	Cut  int // mappings whose path had no room

	last  string
	known map[string]string
	bytes int
}

// Of returns a path as a string of its own, or MoreNames.
func (n *Names) Of(path []byte) string {
	if string(path) == n.last {
		return n.last
	}
	if s, ok := n.known[string(path)]; ok {
		n.last = s
		return s
	}
	room := n.Room
	if room == 0 {
		room = DefaultNameRoom
	}
	if n.bytes+len(path) > room {
		n.Cut++
		return MoreNames
	}
	if n.known == nil {
		n.known = make(map[string]string)
	}
	s := string(path)
	n.bytes += len(s)
	n.known[s], n.last = s, s
	return s
}
