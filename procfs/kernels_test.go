package procfs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// kernelTrees are fixtures captured from real kernels by testdata/vm/capture.
const kernelTrees = "../testdata/kernels"

// eachKernel runs a test on each captured proc file system.
func eachKernel(t *testing.T, fn func(t *testing.T, d *Dir)) {
	t.Helper()
	trees, err := filepath.Glob(filepath.Join(kernelTrees, "*", "proc"))
	if err != nil || len(trees) < 5 {
		t.Fatalf("fixtures: %v, %v", trees, err)
	}
	for _, tree := range trees {
		t.Run(filepath.Base(filepath.Dir(tree)), func(t *testing.T) {
			fs, err := New(tree)
			if err != nil {
				t.Fatal(err)
			}
			d, err := fs.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = d.Close() }()
			defer func(own uint64) { pageSize = own }(pageSize)
			pageSize = 4096 // the trees are of amd64
			fn(t, d)
		})
	}
}

// eachSleeper runs fn for each process of a tree that has memory.
func eachSleeper(t *testing.T, d *Dir, fn func(p *Process, dir string)) {
	t.Helper()
	pids, err := d.PIDs(nil)
	if err != nil || len(pids) != 6 || !slices.IsSorted(pids) {
		t.Fatalf("PIDs: %v, %v", pids, err)
	}
	found := 0
	for _, pid := range pids {
		p, err := d.Process(pid)
		if err != nil {
			t.Fatal(err)
		}
		st, err := p.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if !st.KernelThread() && !st.Zombie() {
			found++
			fn(p, filepath.Join(d.root, fmt.Sprint(pid)))
		}
		_ = p.Close()
	}
	if found != 4 {
		t.Errorf("%d processes with memory", found)
	}
}

// awkNumbers runs an awk program over a file.
func awkNumbers(t *testing.T, program, file string) (numbers []uint64) {
	t.Helper()
	out, err := exec.Command("awk", program, file).Output()
	if err != nil {
		t.Fatalf("awk %s: %v", file, err)
	}
	for _, f := range strings.Fields(string(out)) {
		v, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, v)
	}
	return numbers
}

// TestRollupAndItsFallbackAgree: both give what awk reads, and each other's
// figures; only shares of pages are rounded for each mapping anew.
func TestRollupAndItsFallbackAgree(t *testing.T) {
	const sums = `/^Rss:/ {r+=$2} /^Private_(Clean|Dirty):/ {u+=$2} /^Swap:/ {s+=$2} /^Anonymous:/ {a+=$2} /^Pss:/ {p+=$2} /^Shared_(Clean|Dirty):/ {h+=$2}
		END {printf "%d %d %d %d %d %d", r*1024, u*1024, s*1024, a*1024, h*1024, p*1024}`
	eachKernel(t, func(t *testing.T, d *Dir) {
		eachSleeper(t, d, func(p *Process, dir string) {
			fast, err := p.SmapsRollup()
			slow, err2 := p.sumSmaps()
			if err != nil || err2 != nil || fast.Summed || !slow.Summed {
				t.Fatal(err, err2)
			}
			exact := func(r Rollup) []uint64 {
				return []uint64{r.Rss, r.USS(), r.Swap, r.Anonymous, r.SharedClean + r.SharedDirty}
			}
			want, n := awkNumbers(t, sums, filepath.Join(dir, "smaps")), 0
			if err := p.Smaps(func(*VMA) { n++ }); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(exact(fast), want[:5]) || !slices.Equal(exact(slow), want[:5]) || slow.Pss != want[5] {
				t.Errorf("process %d: rollup %v, summed %v, PSS %d; awk: %v", p.PID(), exact(fast), exact(slow), slow.Pss, want)
			}
			if fast.Pss < slow.Pss || fast.Pss > slow.Pss+uint64(n)<<10 {
				t.Errorf("process %d: PSS %d by rollup, %d summed", p.PID(), fast.Pss, slow.Pss)
			}
			if want := awkNumbers(t, `/^Pss:/ {print $2*1024}`, filepath.Join(dir, "smaps_rollup")); fast.Pss != want[0] {
				t.Errorf("process %d: PSS %d; awk: %v", p.PID(), fast.Pss, want)
			}
		})
	})
}

// TestFilesOfKernelAgree: what two files tell of one figure is the same.
func TestFilesOfKernelAgree(t *testing.T) {
	eachKernel(t, func(t *testing.T, d *Dir) {
		eachSleeper(t, d, func(p *Process, dir string) {
			st, err := p.Stat()
			statm, err2 := p.Statm()
			status, err3 := p.Status()
			if err != nil || err2 != nil || err3 != nil {
				t.Fatal(err, err2, err3)
			}
			if st.VSize != statm.Size || status.VmSize != st.VSize || status.PPid != st.PPID || status.Threads != st.NumThreads {
				t.Errorf("process %d: stat %+v, statm %+v, status %+v", p.PID(), st, statm, status)
			}
			// Since Linux 6.2 stat's counter lags, by up to 32 pages for each of
			// two CPUs and three kinds of pages; statm adds all CPUs up.
			if lag := int64(st.RSS()) - int64(statm.Resident); lag > 3*2*32*4096 || -lag > 3*2*32*4096 {
				t.Errorf("process %d: stat %+v, statm %+v", p.PID(), st, statm)
			}
		})
	})
}

func TestNumaMapsAgreeWithSmaps(t *testing.T) {
	eachKernel(t, func(t *testing.T, d *Dir) {
		eachSleeper(t, d, func(p *Process, dir string) {
			rss := make(map[uint64]uint64)
			total := uint64(0)
			if err := p.Smaps(func(v *VMA) {
				if v.Kind != KindVDSO && v.Kind != KindOther {
					rss[v.Start] = v.Rss
					total += v.Rss
				}
			}); err != nil {
				t.Fatal(err)
			}
			if err := p.NumaMaps(func(v *NumaVMA) {
				if want, ok := rss[v.Start]; ok && (len(v.Nodes) > 1 || len(v.Nodes) == 1 && v.Nodes[0] != want) {
					t.Errorf("process %d, %x: %v on nodes, Rss %d", p.PID(), v.Start, v.Nodes, want)
				}
			}); err != nil {
				t.Fatal(err)
			}
			nodes, err := p.NUMA(nil)
			if err != nil || len(nodes) != 1 || nodes[0] != total {
				t.Errorf("process %d: nodes %v, %v; Rss %d", p.PID(), nodes, err, total)
			}
		})
	})
}

// TestSceneOfKernels: the control group and the names that capture-init made.
func TestSceneOfKernels(t *testing.T) {
	eachKernel(t, func(t *testing.T, d *Dir) {
		in := make(map[string]int)
		eachSleeper(t, d, func(p *Process, dir string) {
			group, err := p.Cgroup()
			if err != nil {
				t.Fatal(err)
			}
			in[group]++
			args, err := p.Cmdline()
			if err != nil || len(args) != 2 {
				t.Errorf("process %d: %q, %v", p.PID(), args, err)
			}
			for name, read := range map[string]func() (int, error){"oom_score": p.OOMScore, "oom_score_adj": p.OOMScoreAdj} {
				text, err := os.ReadFile(filepath.Join(dir, name))
				got, err2 := read()
				if err != nil || err2 != nil || fmt.Sprintln(got) != string(text) {
					t.Errorf("process %d: %s %d, %v; the file says %q", p.PID(), name, got, err2, text)
				}
			}
		})
		if len(in) != 2 || in["/job"] != 1 || in["/"] != 3 {
			t.Errorf("control groups: %v", in)
		}
	})
}

func TestPressureOfKernels(t *testing.T) {
	eachKernel(t, func(t *testing.T, d *Dir) {
		data, err := os.ReadFile(filepath.Join(d.root, "pressure", "memory"))
		if err != nil {
			t.Fatal(err)
		}
		if p, err := ParsePressure(data); err != nil || p.Some.Total < p.Full.Total {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

func TestPressureInNumbers(t *testing.T) {
	p, err := ParsePressure([]byte("some avg10=0.22 avg60=10.05 avg300=100.00 total=1500000\nfull avg10=0.01 avg60=0.00 avg300=0.00 total=7\n"))
	if err != nil || p.Some.Avg10 != 0.22 || p.Some.Avg60 != 10.05 || p.Some.Avg300 != 100 || p.Some.Total.Seconds() != 1.5 ||
		p.Full.Total.Nanoseconds() != 7000 || p.Full.Avg10 != 0.01 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []string{"", "full avg10=0.01 avg60=0.00 avg300=0.00 total=7\n", "some avg10=0.1 avg60=0.00 avg300=0.00 total=7\n", "some\n"} {
		if p, err := ParsePressure([]byte(bad)); err == nil {
			t.Errorf("%q gave %+v", bad, p)
		}
	}
}

func TestCgroupOfControllers(t *testing.T) {
	for text, want := range map[string]string{
		"9:name=systemd:/\n4:memory:/a:b\n0::/c\n":         "/a:b",
		"4:cpu,cpuacct:/x\n0::/system.slice/x.service\n":   "/system.slice/x.service",
		"3:cpuset,memory,pids:/both\n2:memory_other:/no\n": "/both",
		"1:cpu:/x\n": "",
	} {
		if got, err := parseCgroup([]byte(text)); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	if _, err := parseCgroup([]byte("memory/x\n")); err == nil {
		t.Error("a line without colons was taken")
	}
}

func TestCountersKeepTheirNames(t *testing.T) {
	var c Counters
	parse := func(text string) {
		t.Helper()
		if err := c.Parse([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	parse("MemTotal:  12 kB\nHugePages_Total:   3\nlow 7\n")
	for name, want := range map[string]uint64{"MemTotal": 12 << 10, "HugePages_Total": 3, "low": 7} {
		if v, ok := c.Get(name); !ok || v != want {
			t.Errorf("%s: %d, %v", name, v, ok)
		}
	}
	parse("MemTotal: 13 kB\nnew 1\n") // another kernel's, say
	if v, ok := c.Get("MemTotal"); v != 13<<10 || !ok || c.Len() != 2 {
		t.Errorf("%d figures; MemTotal %d, %v", c.Len(), v, ok)
	}
	if _, ok := c.Get("low"); ok {
		t.Error("a figure that is no more was found")
	}
	for _, bad := range []string{"a\n", "a b\n", "a 1 MB\n", ": 1\n", "a 99999999999999999999\n"} {
		if err := c.Parse([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	same := []byte("x 1\n")
	if n := testing.AllocsPerRun(10, func() { _ = c.Parse(same) }); n != 0 {
		t.Errorf("parsing the same names allocates %v times", n)
	}
}

func TestPIDsAreNumbers(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"12", "7", "100", "self", "12x", "0", "-3", "99999999999"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	fs, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	d, err := fs.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	for range 2 {
		if pids, err := d.PIDs(nil); err != nil || !slices.Equal(pids, []int{7, 12, 100}) {
			t.Errorf("%v, %v", pids, err)
		}
	}
	var name [24]byte
	if got := pidName(&name, 1234567890); got != "1234567890" || pidName(&name, 7) != "7" {
		t.Error(got)
	}
	if got := numericNames(bytes.Repeat([]byte{1}, 30), nil); got != nil {
		t.Errorf("a broken listing gave %v", got)
	}
}
