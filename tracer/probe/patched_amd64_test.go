package probe

import (
	"bytes"
	"errors"
	"testing"
)

// TestUnchanged: what is not the file's is noticed wherever a jump over a probe's place would begin, and breakpoints of probes
// are not.
func TestUnchanged(t *testing.T) {
	const start, entry, place = 0x10000, 0x100, 0x140
	for name, c := range map[string]struct {
		at       int
		bytes    []byte
		debugged bool
		want     error
	}{
		"as in the file":                  {at: 0, bytes: nil},
		"a jump at the entry":             {at: entry, bytes: []byte{0xe9, 1, 2, 3, 4}, want: ErrPatched},
		"a long jump at the entry":        {at: entry, bytes: []byte{0xff, 0x25, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, want: ErrPatched},
		"a jump at the place":             {at: place, bytes: []byte{0xeb, 7}, want: ErrPatched},
		"the end of a jump at the place":  {at: place - 3, bytes: []byte{0xe9, 1, 2, 3, 4}, want: ErrPatched},
		"a probe":                         {at: place, bytes: []byte{0xcc}},
		"a probe at the entry":            {at: entry, bytes: []byte{0xcc}},
		"a debugger's breakpoint":         {at: place, bytes: []byte{0xcc}, debugged: true, want: ErrPatched},
		"a debugger without a breakpoint": {at: 0, bytes: nil, debugged: true},
		"elsewhere":                       {at: 0x400, bytes: []byte{0xe9, 1, 2, 3, 4}},
	} {
		file, text := code(t)
		memory := append(make([]byte, start), text...)
		copy(memory[start+c.at:], c.bytes)
		o := Object{
			File: file, Text: []Range{{start, start + uint64(len(text)), 0}},
			Probes: []Probe{{Name: "free", Entry: entry, Offset: place}},
		}
		if err := o.unchanged(bytes.NewReader(memory), c.debugged); !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
