//go:build linux && !viewer

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/snapshot"
	"github.com/memtrace/memtrace/tracer/event"
)

// viewerCommands are those that the viewer has, too: what needs no root and nothing of Linux.
var viewerCommands = []string{"report", "export", "matrix", "diff", "query", "web", "help", "completion", "version"}

// buildViewer builds this system's, once.
var buildViewer = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "viewer")
	if err != nil {
		return "", err
	}
	madeOnce = append(madeOnce, dir)
	path := filepath.Join(dir, "memtrace")
	out, err := exec.Command("go", "build", "-tags", "viewer", "-buildvcs=false", "-o", path, ".").CombinedOutput()
	if err != nil {
		err = errors.New(string(out))
	}
	return path, err
})

// ran is how a program ended.
type ran struct {
	out, complaints string
	code            int
}

func runIn(t *testing.T, dir, program string, args ...string) ran {
	t.Helper()
	var out, complaints bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &complaints
	cmd.Env = append(os.Environ(), asMemtrace+"=1")
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return ran{out.String(), complaints.String(), cmd.ProcessState.ExitCode()}
}

// TestViewerHasNoTracer: on no system is there anything in it that reads a process or asks a kernel.
func TestViewerHasNoTracer(t *testing.T) {
	t.Parallel()
	for _, system := range []string{"linux", "darwin", "windows"} {
		cmd := exec.Command("go", "list", "-deps", "-tags", "viewer", "-f", `{{.ImportPath}}: {{join .Imports " "}} `, ".")
		cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil || len(out) == 0 {
			t.Fatalf("%v: %v", cmd.Args, err)
		}
		for line := range strings.Lines(string(out)) {
			path, imports, _ := strings.Cut(line, ":")
			own, isOwn := strings.CutPrefix(path, "github.com/memtrace/memtrace/")
			for _, other := range []string{"tracer", "bpf", "tracer/probe", "tracer/launch", "procfs/collect", "procfs/machine", "procfs/cgroup", "procfs/ownthread", "analyzer/heapwalk", "analyzer/watch"} {
				if own == other {
					t.Errorf("on %s the viewer has %s", system, path)
				}
			}
			if strings.HasPrefix(path, "github.com/cilium/ebpf") {
				t.Errorf("on %s the viewer has %s", system, path)
			}
			if isOwn && (strings.Contains(imports, " golang.org/x/sys/unix ") || strings.Contains(imports, " syscall ") && own != "cmd/memtrace") {
				t.Errorf("on %s the viewer has system calls of %s", system, path)
			}
		}
	}
}

// TestViewerShowsWhatMemtraceShows compares what both print, byte by byte.
func TestViewerShowsWhatMemtraceShows(t *testing.T) {
	viewer, err := buildViewer()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeSaved(t, dir)
	for _, line := range []string{
		"report grouped.json", "report service.json --top 0 --sort peak", "report service.json --format json", "report lossy.json --format csv",
		"report checked.json", "report checked.json --format markdown", "fails report before.snap", "fails report none.json",
		"export service.json --format pprof", "export service.json --format folded", "export service.json --format html",
		"export service.json --format flamegraph --inverted", "export service.json --format speedscope", "export service.json --format dhat",
		"export service.json --format massif", "export service.json --format csv", "export service.json grouped.json --format flamegraph",
		"matrix -i before.snap", "matrix -i before.snap --report processes --by pss", "matrix -i before.snap --format json",
		"matrix -i before.snap --format html", "matrix -i before.snap -p 1", "fails matrix -i service.json", "diff before.snap before.snap",
		"diff --format json before.snap before.snap", "help leaks",
		"report heap.memtrace", "report heap.memtrace --at 100ms", "report heap.memtrace@end --format json", "export heap.memtrace@50ms heap.memtrace --format flamegraph",
	} {
		line, fails := strings.CutPrefix(line, "fails ")
		args := strings.Fields(line)
		want, got := runIn(t, dir, self, args...), runIn(t, dir, viewer, args...)
		if got != want {
			t.Errorf("memtrace %s: the viewer ends with %d and %d bytes, memtrace with %d and %d\n%.2000s%.2000s", line, got.code, len(got.out), want.code, len(want.out), got.complaints, want.complaints)
		}
		if (want.code != 0 || want.out == "") != fails {
			t.Errorf("memtrace %s: %d %.2000s", line, want.code, want.complaints)
		}
	}
}

// writeSaved puts Reports and a snapshot into a directory.
func writeSaved(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"grouped.json", "service.json", "lossy.compact.json"} {
		text, err := os.ReadFile(filepath.Join("../../analyzer/render/testdata", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, strings.Replace(name, ".compact", "", 1)), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	archive, err := txtar.ParseFile("testdata/script/export.txt")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "checked.json" })
	if err := os.WriteFile(filepath.Join(dir, "checked.json"), archive.Files[i].Data, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := snapshot.Take(t.Context(), snapshot.Options{PIDs: []int{os.Getpid()}})
	if err == nil {
		_, err = snapshot.Save(t.Context(), filepath.Join(dir, "before.snap"), s)
	}
	if err == nil {
		err = writeRecording(filepath.Join(dir, "heap.memtrace"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// writeRecording records a program that has so many blocks that its heap takes several chunks of memory and gives
// some of them back: the viewer has these from elsewhere.
func writeRecording(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	h := recording.Header{Version: "0.1", Config: recording.ConfigOf(analyzer.Config{Start: 1, Seed: [2]uint64{1, 2}}, nil)}
	w, err := recording.NewWriter(f, h, recording.Options{})
	if err != nil {
		return err
	}
	w.Take(input.Started{ProcessInfo: input.ProcessInfo{PID: 7, Comm: "heap"}})
	now := uint64(1000)
	const blocks, batch = 300_000, 1000
	for n := 0; n < 2*blocks; n += batch {
		list := make([]event.Event, batch)
		for i := range list {
			now += 1000
			list[i] = event.Event{Kind: event.Free, PID: 7, TID: 7, Time: now, Addr: uint64(n-blocks+i+1) * 64}
			if n < blocks {
				list[i].Kind, list[i].Addr, list[i].Size, list[i].Stack = event.Alloc, uint64(n+i+1)*64, uint64(i%60), event.StackID(1+i%50)
			} else if i%20 == 0 {
				list[i].Kind, list[i].Size, list[i].Addr = event.Mmap, 100, 1<<40+uint64(n+i)<<16
			}
		}
		w.Take(&input.Events{Events: list})
	}
	return w.Close()
}

// TestViewerAnswersForEveryCommand: it has the command, or says in one sentence why not.
func TestViewerAnswersForEveryCommand(t *testing.T) {
	viewer, err := buildViewer()
	if err != nil {
		t.Fatal(err)
	}
	listed := runIn(t, ".", viewer, "__complete", "bash", "").out + runIn(t, ".", viewer, "--help").out
	for _, c := range newApp().Commands {
		if c.Hidden {
			continue
		}
		has := slices.Contains(viewerCommands, c.Name)
		lists := strings.Contains(listed, "\n"+c.Name+"\t") || strings.Contains(listed, "\n  "+c.Name+" ")
		if lists != has {
			t.Errorf("%s: the viewer lists it: %v, want %v (tracingNames has those that it lacks, viewerCommands the others)", c.Name, lists, has)
		}
		got := runIn(t, ".", viewer, c.Name, "--help")
		want := ran{"", "memtrace " + c.Name + ": this is the viewer of recordings and Reports; tracing needs memtrace on Linux\n", exitUnsupported}
		if has {
			want = ran{got.out, "", 0}
		}
		if got != want || has && !strings.HasPrefix(got.out, "memtrace") {
			t.Errorf("memtrace %s --help: %+v", c.Name, got)
		}
		if has && (strings.Contains(got.out, "sudo") || strings.Contains(got.out, "memtrace run") || strings.Contains(got.out, "memtrace snapshot")) {
			t.Errorf("the help of %s tells of commands that the viewer lacks:\n%s", c.Name, got.out)
		}
	}
}

// TestViewerSaysWhatIsMissing: a flag of the tracer, nothing at all, and this machine's memory.
func TestViewerSaysWhatIsMissing(t *testing.T) {
	viewer, err := buildViewer()
	if err != nil {
		t.Fatal(err)
	}
	for line, says := range map[string]string{
		"-p 1":       "unknown flag -p (memtrace --help lists the flags): this is the viewer of recordings and Reports; tracing needs memtrace on Linux",
		"matrix":     "matrix shows a snapshot here, not this machine: memtrace matrix -i FILE",
		"reprot x":   `unknown command or argument "reprot"; did you mean report?`,
		"matrix 1 2": "unknown command or argument",
		"":           "",
	} {
		if got := runIn(t, ".", viewer, strings.Fields(line)...); got.code != exitUsage || !strings.Contains(got.complaints, says) || (got.out == "") != (line != "") {
			t.Errorf("memtrace %s: %+v, want %q", line, got, says)
		}
	}
	if got := runIn(t, ".", viewer, "version"); !strings.HasSuffix(got.out, ", viewer of recordings and Reports\n") {
		t.Errorf("%+v", got)
	}
}
