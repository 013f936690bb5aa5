package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func groupedReport() *Report {
	f := func(function, file, module string) *Frame {
		return &Frame{Function: function, File: file, Module: module}
	}
	malloc, main := f("xmalloc", "util.c", "/bin/p"), f("main", "main.c", "/bin/p")
	return &Report{Sites: []Site{
		{Function: "grow", FunctionFrame: 1, Stack: []*Frame{malloc, f("grow", "buffer.c", "/lib/libb.so"), main}, LiveBytes: 10, OldestNS: 3, GrowthBytes: -1, Estimate: &Estimate{LiveBytesSE: 3}},
		{Function: "grow", FunctionFrame: 1, Stack: []*Frame{malloc, f("grow", "buffer.c", "/lib/libb.so")}, LiveBytes: 20, OldestNS: 2, GrowthBytes: 2, Estimate: &Estimate{LiveBytesSE: 4}},
		{Function: "0x7f0012", FunctionFrame: 1, Stack: []*Frame{malloc, {Function: "0x7f0012", Module: "/lib/libb.so", Offset: 0x12}, main}, LiveBytes: 5},
		{Function: "main", FunctionFrame: 1, Stack: []*Frame{malloc, main, f("_start", "", "/bin/p")}, LiveBytes: 40, SizeHistogram: [][2]uint64{{8, 2}, {16, 1}}},
		{Function: "[no stack]", LiveBytes: 1, MergedIDs: []int{7}, SizeHistogram: [][2]uint64{{8, 5}}},
	}}
}

func TestGroups(t *testing.T) {
	for by, want := range map[string]string{
		"function": "main 40 1; grow 30 2; [libb.so+0x12] 5 1; [no stack] 1 2",
		"caller":   "_start 40 1; [no caller] 20 1; main 15 2; [no stack] 1 2",
		"file":     "main.c 40 1; buffer.c 30 2; [no source file known in libb.so] 5 1; [no stack] 1 2",
		"module":   "/bin/p 40 1; /lib/libb.so 35 3; [no stack] 1 2",
	} {
		r := groupedReport()
		r.GroupBy(by, "live", 0)
		var got []string
		for _, g := range r.Groups {
			got = append(got, fmt.Sprintf("%s %d %d", g.Key, g.LiveBytes, g.Sites))
		}
		if text := strings.Join(got, "; "); text != want || r.By != by {
			t.Errorf("by %s:\n%s, want\n%s", by, text, want)
		}
	}
	r := groupedReport()
	r.GroupBy("function", "growth", 1)
	if g := r.Groups[0]; len(r.Groups) != 1 || r.GroupsMore != 3 || g.Key != "grow" || g.GrowthBytes != 1 || g.OldestNS != 3 || g.Estimate.LiveBytesSE != 5 {
		t.Errorf("got %+v and %d more", r.Groups, r.GroupsMore)
	}
	r = groupedReport()
	r.GroupBy("size", "count", 0)
	if text, err := json.Marshal(r.Groups[0]); err != nil || string(text) != `{"key":"up to 8","size":8,"sites":2,"alloc_count":7}` {
		t.Errorf("in JSON it is %s, %v", text, err)
	}
	if len(r.Groups) != 2 || r.Groups[0].Size != 8 || r.Groups[0].AllocCount != 7 || r.Groups[0].Sites != 2 {
		t.Errorf("got %+v", r.Groups)
	}
}

func TestGroupingsThatCannotBe(t *testing.T) {
	for word, want := range map[string]string{"thread": "all threads", "type": "memtrace leaks -p", "colour": `"colour" is none of site, function`} {
		if err := CheckGrouping(word); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", word, err)
		}
	}
	for _, word := range append(Groupings(), "") {
		if err := CheckGrouping(word); err != nil {
			t.Error(err)
		}
	}
}

// A saved Report may name any frame as the one that a site is called by, or none.
func TestNamingFrame(t *testing.T) {
	stack := []*Frame{{Function: "malloc", Module: "/lib/libc.so.6"}, {Function: "make", File: "/src/a.c", Module: "/bin/p"}, {Function: "main"}}
	for _, c := range []struct {
		function string
		frame    int
		want     int
	}{{"make", 1, 1}, {"make", 0, 1}, {"make", -5, 1}, {"make", 1 << 40, 1}, {"main", 2, 2}, {"gone", 7, 0}} {
		s := &Site{Function: c.function, FunctionFrame: c.frame, Stack: stack}
		if got := s.NamingFrame(); got != c.want {
			t.Errorf("frame %d named %s: %d, want %d", c.frame, c.function, got, c.want)
		}
		for _, by := range []string{"function", "caller", "file", "module"} {
			if s.GroupKey(by) == "" {
				t.Errorf("frame %d by %s has no group", c.frame, by)
			}
		}
	}
	if s := (&Site{Function: "[no stack]", FunctionFrame: -1}); s.NamingFrame() != -1 || s.GroupKey("file") != "[no stack]" {
		t.Errorf("without a stack: frame %d, file %s", s.NamingFrame(), s.GroupKey("file"))
	}
}
