package top

import (
	"slices"
	"testing"
)

func TestFilters(t *testing.T) {
	for _, c := range []struct {
		filter string
		want   []int
	}{
		{"", []int{101, 102, 201, 202, 301, 401, 2}},
		{"redis", []int{101, 102}},
		{"REDIS-server", []int{101, 102}},
		{"101", []int{101}},
		{"pid:102", []int{102}},
		{"user:web", []int{201, 202}},
		{"user:we", nil},
		{"name:port", nil}, // which the command line has
		{"port", []int{101, 102, 201, 202, 301, 401}},
		{"cgroup:/system.slice/huge", []int{401}},
		{"cgroup:system !redis !user:web", []int{301, 401}},
		{"redis 101", []int{101}},
	} {
		f, err := ParseFilter(c.filter)
		if err != nil {
			t.Errorf("%q: %v", c.filter, err)
			continue
		}
		var got []int
		for _, p := range f.processes(example().Processes) {
			got = append(got, p.PID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("filter %q takes %v, want %v", c.filter, got, c.want)
		}
	}
	if _, err := ParseFilter("pid:abc"); err == nil {
		t.Error("pid:abc is taken")
	}
}

func TestFilterOfNames(t *testing.T) {
	f, err := ParseFilter("libc !deleted")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"/lib/libc.so.6": true, "/lib/LIBC.so.6": true, "/lib/libc.so.6 (deleted)": false, "[heap]": false} {
		if got := f.name(name, 0); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
