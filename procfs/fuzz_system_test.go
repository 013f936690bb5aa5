package procfs

import (
	"bytes"
	"testing"

	"github.com/memtrace/memtrace/procfs/proctest"
	"github.com/memtrace/memtrace/testdata/costtest"
)

func FuzzParseCgroup(f *testing.F) {
	proctest.Seed(f, kernelTrees+"/*/proc/*/cgroup")
	f.Add([]byte("4:memory:/a:b\n0::/c"))
	f.Add([]byte("::"))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		if path, err := parseCgroup(data); err == nil && !bytes.Contains(data, path) || bytes.ContainsRune(path, '\n') {
			t.Errorf("%q is not in %q", path, data)
		}
	})
}

func FuzzParseNumber(f *testing.F) {
	proctest.Seed(f, kernelTrees+"/*/proc/*/oom_score_adj")
	f.Add([]byte("-1000\n"))
	f.Add([]byte("--1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		if v, err := parseNumber(data); err != nil && v != 0 || v > 1<<31-1 || v < -(1<<31-1) {
			t.Errorf("%d, %v", v, err)
		}
	})
}

func FuzzParsePressure(f *testing.F) {
	proctest.Seed(f, kernelTrees+"/*/proc/pressure/memory")
	proctest.Seed(f, kernelTrees+"/*/cgroup2/job/memory.pressure")
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		if p, err := ParsePressure(data); p.Some.Total < 0 || p.Some.Avg10 < 0 || err != nil && p != (Pressure{}) {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// FuzzParseCounters parses into Counters that hold another file's figures.
func FuzzParseCounters(f *testing.F) {
	proctest.Seed(f, kernelTrees+"/*/proc/meminfo")
	proctest.Seed(f, kernelTrees+"/*/proc/vmstat")
	proctest.Seed(f, kernelTrees+"/*/cgroup2/job/memory.stat")
	f.Add([]byte("a 1\na 2\nb: 3 kB\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		var fresh, used Counters
		_ = used.Parse([]byte("a 1\nMemTotal: 1 kB\nb 2\n"))
		err, err2 := fresh.Parse(data), used.Parse(data)
		if (err == nil) != (err2 == nil) || err == nil && fresh.Len() != used.Len() {
			t.Fatalf("%d figures, %v; into used ones %d, %v", fresh.Len(), err, used.Len(), err2)
		}
		if err != nil {
			return
		}
		for i := range fresh.Len() {
			name, v := fresh.At(i)
			first, ok := fresh.Get(name)
			if again, ok2 := used.Get(name); !ok || !ok2 || again != first {
				t.Errorf("%s: %d; into used ones %d, %v, %v", name, v, again, ok, ok2)
			}
		}
	})
}

func FuzzParseNumaMaps(f *testing.F) {
	proctest.Seed(f, kernelTrees+"/*/proc/*/numa_maps")
	f.Add([]byte("7f00 default N1=18446744073709551615 kernelpagesize_kB=4\n"))
	f.Add([]byte("7f00 bind:0-1 file=/a\\040b huge anon=1 dirty=1 N0=1 N1023=2 kernelpagesize_kB=2048\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		r := new(numaReader)
		n, err := r.parse(bytes.NewReader(data), func(v *NumaVMA) {
			if len(v.Nodes) > maxNodes || len(v.Policy) == 0 {
				t.Errorf("%+v", v)
			}
		})
		if err == nil && n > bytes.Count(data, []byte("\n"))+1 {
			t.Errorf("%d mappings of %q", n, data)
		}
	})
}

func FuzzNumericNames(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x18\x00\x0412\x00\x00\x00"))
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		for _, pid := range numericNames(data, nil) {
			if pid <= 0 {
				t.Error(pid)
			}
		}
	})
}
