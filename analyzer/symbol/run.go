package symbol

import "slices"

// A Run names stacks one after the other, each address once. What one has in common with the one before, from its outermost frame on,
// is named once: stacks in the order in which they were taken have most of their frames in common. It is for one
// goroutine, and for as long as what the processes have mapped stays as it is.
type Run struct {
	resolver *Resolver
	space    *Space
	newest   uint64   // when the last thing was mapped there
	addrs    []uint64 // of the stack before, innermost first; none where they can't be relied on
	frames   []*Frame
	tails    []int // by how many of its outermost addresses: their frames
	starts   []int
	known    map[uint64][]*Frame // of addresses, from newest on
}

// Run begins one.
func (r *Resolver) Run() *Run { return &Run{resolver: r} }

// FramesAt is that of the Resolver, for addresses that all are returned to. They are not to be changed until the next
// stack.
func (x *Run) FramesAt(s *Space, addrs []uint64, at uint64) []*Frame {
	if s != x.space {
		x.space, x.newest, x.addrs, x.known = s, s.newest(), nil, make(map[uint64][]*Frame)
	}
	settled := at >= x.newest // else other code may have been there
	if !settled {
		x.addrs = nil
	}
	shared := 0
	for n, was := len(addrs), len(x.addrs); shared < min(n, was) && addrs[n-1-shared] == x.addrs[was-1-shared]; {
		shared++
	}
	tail := []*Frame(nil)
	x.tails = x.tails[:shared]
	if shared > 0 {
		tail = x.frames[len(x.frames)-x.tails[shared-1]:]
	}
	inner := addrs[:len(addrs)-shared]
	frames := make([]*Frame, 0, len(inner)+len(inner)/2+len(tail))
	x.starts = x.starts[:0]
	for _, addr := range inner {
		x.starts = append(x.starts, len(frames))
		frames = x.append(frames, addr, at, settled)
	}
	frames = append(frames, tail...)
	for i := len(inner) - 1; i >= 0; i-- {
		x.tails = append(x.tails, len(frames)-x.starts[i])
	}
	x.frames, x.addrs = frames, addrs
	if !settled {
		x.addrs = nil
	}
	return frames
}

// append appends the frames of one address.
func (x *Run) append(frames []*Frame, addr, at uint64, settled bool) []*Frame {
	if found, ok := x.known[addr]; ok && settled {
		return append(frames, found...)
	}
	was := len(frames)
	frames = x.resolver.appendFrames(frames, x.space, max(addr, 1)-1, at)
	if settled {
		x.known[addr] = slices.Clone(frames[was:])
	}
	return frames
}

// newest is when the last of what is known to be mapped came: names are the same at all times from then on.
func (s *Space) newest() (at uint64) {
	for range maxAncestors + 1 {
		if s == nil {
			break
		}
		at = max(at, s.newestOwn())
		s, _ = s.inherits()
	}
	return at
}

func (s *Space) newestOwn() (at uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, list := range [][]mapping{s.current, s.retired} {
		for i := range list {
			at = max(at, list[i].since)
		}
	}
	return at
}
