package tracer

import (
	"slices"
	"testing"
)

func TestParseCPUList(t *testing.T) {
	for list, want := range map[string][]int{
		"0": {0}, "0-3": {0, 1, 2, 3}, "0,2-3,8": {0, 2, 3, 8},
	} {
		got, err := parseCPUList(list)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", list, got, err, want)
		}
	}
	for _, list := range []string{"", "x", "3-1", "-1", "0-99999999", "1,,2"} {
		if got, err := parseCPUList(list); err == nil {
			t.Errorf("%q: %v, want an error", list, got)
		}
	}
}

func TestRingsStayWithinTheirBudget(t *testing.T) {
	for _, cpus := range []int{1, 2, 16, 64, 256, 512} {
		size := ringBytes(cpus)
		if size&(size-1) != 0 || size%4096 != 0 || size < 1<<20 {
			t.Errorf("%d CPUs: a ring of %d bytes is no ring", cpus, size)
		}
		if size > 1<<20 && size*cpus > 512<<20 {
			t.Errorf("%d CPUs: %d bytes each are too much together", cpus, size)
		}
	}
}
