package machine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/procfs"
)

// eachKernel runs a test on what testdata/vm/capture took from each kernel.
func eachKernel(t *testing.T, fn func(t *testing.T, r *Reader, tree string)) {
	t.Helper()
	trees, err := filepath.Glob("../../testdata/kernels/[5-9n]*")
	if err != nil || len(trees) < 5 {
		t.Fatalf("fixtures: %v, %v", trees, err)
	}
	for _, tree := range trees {
		t.Run(filepath.Base(tree), func(t *testing.T) {
			r, err := Open(filepath.Join(tree, "proc"), filepath.Join(tree, "sys"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			defer func(own uint64) { pageSize = own }(pageSize)
			pageSize = 4096 // the trees are of amd64
			fn(t, r, tree)
		})
	}
}

// awk returns what an awk program prints.
func awk(t *testing.T, program, file string) string {
	t.Helper()
	out, err := exec.Command("awk", program, file).Output()
	if err != nil {
		t.Fatalf("awk %s: %v", file, err)
	}
	return strings.TrimSpace(string(out))
}

func lines(c *procfs.Counters) string {
	var s strings.Builder
	for i := range c.Len() {
		name, v := c.At(i)
		fmt.Fprintln(&s, name, v)
	}
	return strings.TrimSpace(s.String())
}

func TestCountersAgainstAwk(t *testing.T) {
	const kilobytes = `{sub(":", "", $1); printf "%s %.0f\n", $1, $3 == "kB" ? $2*1024 : $2}`
	eachKernel(t, func(t *testing.T, r *Reader, tree string) {
		var c procfs.Counters
		for range 2 { // into new Counters, and into those that are there
			if err := r.Meminfo(&c); err != nil {
				t.Fatal(err)
			}
			if want := awk(t, kilobytes, filepath.Join(tree, "proc/meminfo")); lines(&c) != want {
				t.Errorf("meminfo:\n%s\nawk:\n%s", lines(&c), want)
			}
		}
		if err := r.Vmstat(&c); err != nil {
			t.Fatal(err)
		}
		if want := awk(t, `{print $1, $2}`, filepath.Join(tree, "proc/vmstat")); lines(&c) != want {
			t.Errorf("vmstat:\n%s\nawk:\n%s", lines(&c), want)
		}
	})
}

func TestNodesAgainstAwk(t *testing.T) {
	const kilobytes = `{sub(":", "", $3); printf "%s %.0f\n", $3, $5 == "kB" ? $4*1024 : $4}`
	eachKernel(t, func(t *testing.T, r *Reader, tree string) {
		nodes, err := r.Nodes(nil)
		if err != nil || len(nodes) != 1 || nodes[0].ID != 0 {
			t.Fatalf("%v, %v", nodes, err)
		}
		dir := filepath.Join(tree, "sys/devices/system/node/node0")
		if want := awk(t, kilobytes, filepath.Join(dir, "meminfo")); lines(&nodes[0].Meminfo) != want {
			t.Errorf("meminfo:\n%s\nawk:\n%s", lines(&nodes[0].Meminfo), want)
		}
		if want := awk(t, `{print $1, $2}`, filepath.Join(dir, "numastat")); lines(&nodes[0].Numastat) != want {
			t.Errorf("numastat:\n%s\nawk:\n%s", lines(&nodes[0].Numastat), want)
		}
	})
}

func TestZoneinfoAgainstAwk(t *testing.T) {
	const zones = `/^Node/ {z++} $1=="pages" && $2=="free" {f+=$3} $1=="min" {a+=$2} $1=="low" {b+=$2} $1=="high" {c+=$2}
		$1=="managed" {m+=$2} $1=="count:" {p+=$2} END {print z, f, a, b, c, m, p}`
	const node = `$1=="per-node" {on=1; next} $1=="pages" {on=0} on {print $1, $2}`
	eachKernel(t, func(t *testing.T, r *Reader, tree string) {
		var nodes []NodeStats
		for range 2 {
			var err error
			if nodes, err = r.Zoneinfo(nodes); err != nil || len(nodes) != 1 {
				t.Fatalf("%v, %v", nodes, err)
			}
		}
		var s Zone
		for _, z := range nodes[0].Zones {
			s.Free, s.Min, s.Low, s.High = s.Free+z.Free, s.Min+z.Min, s.Low+z.Low, s.High+z.High
			s.Managed, s.PerCPU = s.Managed+z.Managed, s.PerCPU+z.PerCPU
		}
		file := filepath.Join(tree, "proc/zoneinfo")
		got := fmt.Sprint(len(nodes[0].Zones), s.Free, s.Min, s.Low, s.High, s.Managed, s.PerCPU)
		if want := awk(t, zones, file); got != want {
			t.Errorf("zones %s; awk %s", got, want)
		}
		if want := awk(t, node, file); lines(&nodes[0].Stats) != want {
			t.Errorf("node:\n%s\nawk:\n%s", lines(&nodes[0].Stats), want)
		}
	})
}

func TestSlabinfoAgainstAwk(t *testing.T) {
	eachKernel(t, func(t *testing.T, r *Reader, tree string) {
		slabs, err := r.Slabinfo(nil)
		if err != nil || len(slabs) == 0 {
			t.Fatal(slabs, err)
		}
		var got strings.Builder
		for _, s := range slabs {
			fmt.Fprintln(&got, s.Name, s.ActiveObjects, s.Objects, s.ObjectSize, s.Bytes)
		}
		want := awk(t, `NR>2 {print $1, $2, $3, $4, $15*$6*4096}`, filepath.Join(tree, "proc/slabinfo"))
		if strings.TrimSpace(got.String()) != want {
			t.Errorf("got:\n%s\nawk:\n%s", got.String(), want)
		}
	})
}

func TestPressure(t *testing.T) {
	eachKernel(t, func(t *testing.T, r *Reader, tree string) {
		if p, err := r.Pressure(); err != nil || p.Some.Avg10 > 100 {
			t.Errorf("%+v, %v", p, err)
		}
	})
	r, err := Open(t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if _, err := r.Pressure(); procfs.OutcomeOf(err) != procfs.NotSupported {
		t.Errorf("no file: %v", err)
	}
	if _, err := r.Nodes(nil); procfs.OutcomeOf(err) != procfs.NotSupported {
		t.Errorf("no nodes: %v", err)
	}
}

// TestBooksAddUp: on each kernel the parts are the whole, and what a machine
// that has just booted leaves unexplained is small.
func TestBooksAddUp(t *testing.T) {
	eachKernel(t, func(t *testing.T, r *Reader, tree string) {
		b, err := r.Books(Sums{USS: 1 << 20, PSS: 2 << 20})
		if err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for _, p := range b.Parts {
			sum += p.Bytes
			if p.Bytes < 0 && p.Name != "unexplained" {
				t.Errorf("%+v", p)
			}
		}
		if sum != int64(b.Total) || b.Parts[0].Name != "process private" || b.Parts[0].Bytes != 1<<20 {
			t.Errorf("%d of %d: %+v", sum, b.Total, b.Parts)
		}
		if rest := b.Unexplained(); rest < -int64(b.Total)/100 || rest > int64(b.Total)/100 {
			t.Errorf("%.2f %% unexplained: %+v", 100*float64(rest)/float64(b.Total), b.Parts)
		}
	})
}

func TestBooksSayWhatIsMissing(t *testing.T) {
	var meminfo, vmstat procfs.Counters
	if err := meminfo.Parse([]byte("MemTotal: 1000 kB\nMemFree: 400 kB\nAnonPages: 300 kB\nMapped: 100 kB\nCached: 250 kB\nKernelStack: 10 kB\nVmallocUsed: 30 kB\n")); err != nil {
		t.Fatal(err)
	}
	b, err := Balance(&meminfo, &vmstat, nil, Sums{USS: 250 << 10, Unread: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"process private": 250, "process shared": 150, "page cache": 150, "kernel stacks": 10, "vmalloc": 20,
		"free": 400, "unexplained": 20}
	for _, p := range b.Parts {
		if p.Bytes != want[p.Name]<<10 {
			t.Errorf("%s: %d KiB, not %d", p.Name, p.Bytes>>10, want[p.Name])
		}
		if p.Name == "process shared" && (!p.Estimated || !strings.HasPrefix(p.Why, "3 processes")) {
			t.Errorf("%+v", p)
		}
	}
	if _, err := Balance(&vmstat, &vmstat, nil, Sums{}); err == nil {
		t.Error("books without MemTotal")
	}
}

func TestMapCounts(t *testing.T) {
	const on, off = "CONFIG_SMP=y\nCONFIG_NO_PAGE_MAPCOUNT=y\n", "CONFIG_SMP=y\n# CONFIG_NO_PAGE_MAPCOUNT is not set\n"
	for _, c := range []struct {
		release, config string
		want            MapCounts
	}{
		{"5.10.0-46-amd64", on, MapCountsExact}, // an option that there was not
		{"6.14.9", "", MapCountsExact},
		{"6.15.0", on, MapCountsAveraged},
		{"6.18.1-x", off, MapCountsExact},
		{"7.0.1", "", MapCountsUnknown},
		{"7.0.1", "no configuration\n", MapCountsUnknown},
	} {
		root := t.TempDir()
		write := func(name, text string) {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write("proc/sys/kernel/osrelease", c.release+"\n")
		if c.config != "" {
			write("boot/config-"+c.release, c.config)
		}
		if got, err := DetectMapCounts(root); err != nil || got != c.want {
			t.Errorf("%s, %q: %v, %v; want %v", c.release, c.config, got, err, c.want)
		}
	}
	if MapCountsExact.Estimated() || !MapCountsAveraged.Estimated() || !MapCountsUnknown.Estimated() {
		t.Error("which counts are estimates")
	}
	if _, err := DetectMapCounts(t.TempDir()); err == nil {
		t.Error("a kernel without a release")
	}
}

func TestListOfNodes(t *testing.T) {
	for text, want := range map[string]string{"0": "[0]", "0-2,5": "[0 1 2 5]", "": "[]"} {
		if got, err := parseList([]byte(text), maxNodes); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"a", "0-", "3-1", "0-99999999", "0;1"} {
		if got, err := parseList([]byte(bad), maxNodes); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}
