package analyzer

import "github.com/memtrace/memtrace/tracer/event"

const (
	siteChunk  = 1 << 10
	stackChunk = 1 << 16 // frames

	// reservedSites is how many of maxSites are kept for the sites that stand
	// for all others of one image.
	reservedSites = 1 << 12
)

// A siteTable holds the sites of all processes by number. Sites never move.
type siteTable struct {
	chunks []*[siteChunk]site
	used   uint32
	limit  uint32 // sites beyond it are counted together, per image
	beyond uint64 // look-ups that ended at such a site
}

func (t *siteTable) at(id siteID) *site { return &t.chunks[id/siteChunk][id%siteChunk] }

// add makes a site. The caller has seen to it that used < maxSites.
func (t *siteTable) add(s site) siteID {
	if t.used%siteChunk == 0 {
		t.chunks = append(t.chunks, new([siteChunk]site))
	}
	id := siteID(t.used)
	t.used++
	*t.at(id) = s
	return id
}

// all yields each site with its number, in the order of their first event.
func (t *siteTable) all(yield func(siteID, *site) bool) {
	for id := range siteID(t.used) {
		if !yield(id, t.at(id)) {
			return
		}
	}
}

// recentIndex is a stack's place in image.recent.
func recentIndex(stack event.StackID) uint64 { return uint64(stack) * 0x9e3779b97f4a7c15 >> 55 }

// siteOf returns the site of a stack in a process, made at its first event.
func (a *Analyzer) siteOf(p *process, stack event.StackID) siteID {
	m := p.image
	if m.recent == nil {
		m.recent = new([recentSites]recentSite)
	}
	r := &m.recent[recentIndex(stack)]
	if r.known && r.stack == stack {
		return r.site
	}
	id, ok := m.sites[stack]
	if !ok {
		if id, ok = a.addSite(p, stack); !ok {
			return id
		}
	}
	*r = recentSite{stack, id, true}
	return id
}

// addSite makes the site of a stack. Where there are too many, it returns the
// one that stands for all others, and false.
func (a *Analyzer) addSite(p *process, stack event.StackID) (siteID, bool) {
	m := p.image
	if p.group != nil {
		return p.group.site(a, m, stack)
	}
	if a.sites.used < a.sites.limit && a.keeps(m, siteBytes) {
		id := a.sites.add(site{stack: stack, proc: p, image: m})
		m.sites[stack] = id
		return id, true
	}
	a.sites.beyond++
	return a.otherSite(p), false
}

// otherSite is the one that stands for all others of a process that is listed itself.
func (a *Analyzer) otherSite(p *process) siteID {
	m := p.image
	if !m.hasOther {
		if a.sites.used < min(a.sites.limit+reservedSites, maxSites) {
			m.other = a.sites.add(site{proc: p, image: m, other: true})
		} else {
			m.other = siteID(a.sites.used - 1)
		}
		m.hasOther = true
	}
	return m.other
}

// keepsStack claims room for a stack, or counts that it had none.
func (a *Analyzer) keepsStack(m *image, s event.Stack) bool {
	if a.keeps(m, stackBytes+frameBytes*uint64(min(len(s.Frames), maxFrames))) {
		return true
	}
	m.owner.stacks++
	return false
}

// A stackRef says where the frames of a stack are kept.
type stackRef struct {
	chunk, first uint32
	frames       uint16
	ending       stackEnding
	at           uint64 // ns, CLOCK_MONOTONIC: when it was taken
}

// A stackStore keeps frames without a pointer per stack.
type stackStore struct {
	chunks [][]uint64
}

// maxFrames bounds what is kept of one stack.
const maxFrames = 1<<12 - 1

func (t *stackStore) add(s event.Stack) stackRef {
	frames, ending := s.Frames, endingOf(s)
	if len(frames) > maxFrames {
		frames, ending.truncated = frames[:maxFrames], true
	}
	last := len(t.chunks) - 1
	if last < 0 || len(t.chunks[last])+len(frames) > stackChunk {
		t.chunks = append(t.chunks, make([]uint64, 0, stackChunk))
		last++
	}
	ref := stackRef{uint32(last), uint32(len(t.chunks[last])), uint16(len(frames)), ending, s.Time}
	t.chunks[last] = append(t.chunks[last], frames...)
	return ref
}

// frames returns the return addresses of a stack, innermost first. The caller
// must not change them.
func (t *stackStore) frames(r stackRef) []uint64 {
	return t.chunks[r.chunk][r.first : r.first+uint32(r.frames)]
}

// has reports whether a number can be that of a stack: see stackRef.number.
func (t *stackStore) has(number uint64) bool {
	chunk, first := number>>32, number&(1<<32-1)
	return chunk < uint64(len(t.chunks)) && first < uint64(len(t.chunks[chunk]))
}

// maxEarlyImages bounds the processes whose stacks are kept ahead of the event or
// the call that makes the process known.
const maxEarlyImages = 1024

// addStack takes a Stack.
func (a *Analyzer) addStack(s event.Stack) {
	var m *image
	if p := a.byPID[s.PID]; p != nil && p.group != nil {
		p.group.addStack(a, p.image, s)
		return
	} else if p != nil {
		m = p.image
	} else if m = a.earlyImages[s.PID]; m == nil {
		if len(a.earlyImages) >= maxEarlyImages {
			clear(a.earlyImages)
		}
		m = newImage(nil)
		a.earlyImages[s.PID] = m
	}
	if _, ok := m.stacks[s.ID]; !ok && a.keepsStack(m, s) {
		m.stacks[s.ID] = a.stacks.add(s)
	}
}
