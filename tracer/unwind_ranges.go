package tracer

import (
	"errors"
	"slices"
)

// errNoRoom: one of the maps of the unwinder is full.
var errNoRoom = errors.New("no room left")

// extent is a run of entries in an array.
type extent struct{ first, n uint32 }

// extents hands out runs of entries of an array, the lowest that fit.
type extents struct {
	limit uint32
	used  []extent // in order
}

func (e *extents) take(n uint32) (extent, error) {
	at := uint32(0)
	for i, u := range e.used {
		if u.first-at >= n {
			e.used = slices.Insert(e.used, i, extent{at, n})
			return extent{at, n}, nil
		}
		at = u.first + u.n
	}
	if e.limit-at < n {
		return extent{}, errNoRoom
	}
	e.used = append(e.used, extent{at, n})
	return extent{at, n}, nil
}

func (e *extents) give(x extent) {
	if i := slices.Index(e.used, x); i >= 0 && x.n > 0 {
		e.used = slices.Delete(e.used, i, i+1)
	}
}

// slotList hands out the places of an array of maps, from 1 on.
type slotList struct {
	free        []uint32
	next, limit uint32
}

func (l *slotList) take() (uint32, error) {
	if n := len(l.free); n > 0 {
		slot := l.free[n-1]
		l.free = l.free[:n-1]
		return slot, nil
	}
	if l.next+1 >= l.limit {
		return 0, errNoRoom
	}
	l.next++
	return l.next, nil
}

func (l *slotList) give(slot uint32) { l.free = append(l.free, slot) }
