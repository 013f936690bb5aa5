package cgroup

import (
	"strings"
	"testing"

	"github.com/memtrace/memtrace/procfs/proctest"
	"github.com/memtrace/memtrace/testdata/costtest"
)

func FuzzParseNUMA(f *testing.F) {
	for _, name := range []string{"cgroup2/job/memory.numa_stat", "cgroup1/memory/job/memory.numa_stat"} {
		proctest.Seed(f, "../../testdata/kernels/*/"+name)
	}
	f.Add([]byte("a N1023=1 N0=2\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		figures, err := parseNUMA(data)
		if len(figures) > maxFigures || err != nil && figures != nil {
			t.Errorf("%d figures, %v", len(figures), err)
		}
		for _, g := range figures {
			if len(g.Nodes) > maxNodes || g.Name == "" {
				t.Errorf("%+v", g)
			}
		}
	})
}

func FuzzBelow(f *testing.F) {
	f.Add("/a/../../b")
	f.Add("/../x")
	f.Add("a/./b//c")
	f.Fuzz(func(t *testing.T, group string) {
		defer costtest.Bound(t)()
		dir, err := below(group)
		if err == nil && (strings.HasPrefix(dir, "/") || strings.HasPrefix(dir, "../") || strings.Contains(dir, "/../")) {
			t.Errorf("%q became %q", group, dir)
		}
	})
}
