package python

import (
	"slices"
	"testing"
)

// Each run of Python frames stands inside of the evaluation loop that runs it, wherever the native stack ends.
func TestInterleave(t *testing.T) {
	const loop = 100 // and a return address below it is other code's
	inner := []Frame{{Code: 1}, {Code: 2, Enters: true}}
	outer := []Frame{{Code: 3}, {Enters: true}} // as from 3.12 on
	none := []Frame{{Enters: true}}             // a loop whose frame is gone already
	for name, c := range map[string]struct {
		native []uint64
		python []Frame
		want   []uint64
	}{
		"two runs":              {[]uint64{10, loop, 11, loop, 12}, slices.Concat(inner, outer), []uint64{10, 1001, 1002, loop, 11, 1003, loop, 12}},
		"a loop without frames": {[]uint64{10, loop, 11, loop}, slices.Concat(none, outer), []uint64{10, loop, 11, 1003, loop}},
		"the native stack cut":  {[]uint64{10, loop, 11}, slices.Concat(inner, outer), []uint64{10, 1001, 1002, loop, 11, 1003}},
		"the frames cut":        {[]uint64{loop, 11, loop}, inner[:1], []uint64{1001, loop, 11, loop}},
		"no Python":             {[]uint64{10, 11}, nil, []uint64{10, 11}},
	} {
		got := Interleave(c.native, c.python, func(ret uint64) bool { return ret == loop }, func(to []uint64, f *Frame) []uint64 {
			return append(to, 1000+f.Code)
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
