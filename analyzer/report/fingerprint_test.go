package report

import "testing"

func TestFingerprintsLastFromRunToRun(t *testing.T) {
	print := func(kind string, change func(s *Site)) string {
		s := &Site{ID: 1, PID: 5, Stack: []*Frame{
			{Function: "operator new(unsigned long)", Module: "/usr/lib/libstdc++.so.6"},
			{Function: "make", File: "a.c", Line: 10, Module: "/usr/bin/p", Offset: 0x1000},
			{Function: "0x7f0012", Module: "/usr/lib/libx.so.1", Offset: 0x12},
			{Function: "walk", Line: 20}, {Function: "walk", Line: 20}, {Function: "main", Line: 30},
			{Function: "__libc_start_call_main", Module: "/usr/lib/libc.so.6"},
		}}
		change(s)
		r := &Report{Sites: []Site{*s}, Leaks: []Leak{{Site: 1, Kind: kind}}}
		r.Identify()
		return r.Leaks[0].Fingerprint
	}
	want := print("definite", func(*Site) {})
	if len(want) != 32 {
		t.Errorf("fingerprint %q", want)
	}
	for name, change := range map[string]func(s *Site){
		"lines":     func(s *Site) { s.Stack[1].Line, s.Stack[3].Line, s.Stack[1].File = 99, 98, "/elsewhere/a.c" },
		"addresses": func(s *Site) { s.Stack[2].Function, s.Stack[1].Offset = "0x55aa0012", 0x2000 },
		"process":   func(s *Site) { s.PID, s.Stack[1].BuildID = 6, "new" },
		"libc": func(s *Site) {
			s.Stack = append(s.Stack[:6], &Frame{Function: "__libc_start_main@@x", Module: "/lib/libc-2.31.so"})
		},
		"recursion":    func(s *Site) { s.Stack = append(s.Stack[:4:4], s.Stack[3:]...) },
		"no new frame": func(s *Site) { s.Stack = s.Stack[1:] },
	} {
		if got := print("possible", change); got != want {
			t.Errorf("%s: another fingerprint", name)
		}
	}
	for name, change := range map[string]func(s *Site){
		"function": func(s *Site) { s.Stack[1].Function = "made" },
		"caller":   func(s *Site) { s.Stack[3].Function, s.Stack[4].Function = "run", "run" },
		"nameless": func(s *Site) { s.Stack[2].Offset = 0x13 },
	} {
		if print("definite", change) == want {
			t.Errorf("%s: the same fingerprint", name)
		}
	}
	if print("growing", func(*Site) {}) == want || print("old", func(*Site) {}) == want {
		t.Error("a candidate has the fingerprint of a verdict")
	}
}

// Sites of one Report that only lines, processes or addresses tell apart have one
// fingerprint; it is none of a leak, and depends on what blocks without a stack look like.
func TestFingerprintsOfSites(t *testing.T) {
	site := func(names ...string) *Site {
		s := &Site{Function: "make"}
		for i, name := range names {
			s.Stack = append(s.Stack, &Frame{Function: name, Line: i, Offset: uint64(i)})
		}
		return s
	}
	a, b := site("malloc", "make", "walk", "walk", "main", "_start"), site("make", "walk", "main")
	a.PID, b.PID, a.LiveBytes = 7, 8, 100
	if a.Fingerprint() != b.Fingerprint() || len(a.Fingerprint()) != 32 {
		t.Errorf("%s and %s are of one site", a.Fingerprint(), b.Fingerprint())
	}
	seen := map[string]int{fingerprint("leak", a): -1}
	for i, s := range []*Site{
		a, site("make", "run", "main"), site("make", "main"), site(), {Function: "other"},
		{Group: &BlockGroup{Size: 24, Class: "zeros"}}, {Group: &BlockGroup{Size: 40, Class: "zeros"}}, {Group: &BlockGroup{Size: 24, Class: "type", Type: "Order"}},
	} {
		if was, ok := seen[s.Fingerprint()]; ok {
			t.Errorf("site %d has the fingerprint of %d", i, was)
		}
		seen[s.Fingerprint()] = i
	}
}
