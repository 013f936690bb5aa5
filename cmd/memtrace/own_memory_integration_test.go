//go:build integration

package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// TestLeaksOnEachAllocator: what an allocator keeps of blocks in its own memory
// holds none of them, and hides nothing of the program's that lies beside it.
// The programs know what they have lost; lost_blocks has filled its allocator's caches before.
func TestLeaksOnEachAllocator(t *testing.T) {
	t.Parallel()
	const jemalloc = "libjemalloc.a"
	const everyFourth = "SCUDO_OPTIONS=GWP_ASAN_SampleRate=4:GWP_ASAN_MaxSimultaneousAllocations=400"
	static := []string{"-lm", "-ldl", "-lstdc++"}
	for _, b := range []build{
		{allocator: "glibc", how: "shared"},
		{allocator: "jemalloc", how: "preloaded", preload: jemallocLib},
		{allocator: "jemalloc", how: "static", libraries: append([]string{"-l:" + jemalloc}, static...)},
		{allocator: "tcmalloc", how: "preloaded", preload: tcmallocLib},
		{allocator: "mimalloc", how: "preloaded", preload: mimallocLib},
		{allocator: "scudo", how: "preloaded", preload: scudoLib},
		{allocator: "scudo", how: "by GWP-ASan", preload: scudoLib, setting: everyFourth},
		{allocator: "musl", how: "shared", compiler: "musl-gcc"},
		{allocator: "musl", how: "static", compiler: "musl-gcc", flags: []string{"-static"}},
	} {
		t.Run(b.allocator+"/"+b.how, func(t *testing.T) {
			t.Parallel()
			b.dir = t.TempDir()
			said := b.findLost(t, []string{b.compile(t, "lost_blocks"), "run"})
			if b.allocator == "jemalloc" && !bytes.Contains(said, []byte("case lost_over_a_gigabyte ")) {
				t.Error("no block lay over an address that jemalloc's threads keep")
			}
			if b.preload != "" {
				b.findLost(t, []string{testProgram("leak_corpus"), "x"})
			}
		})
	}
	t.Run("jemalloc/child", func(t *testing.T) {
		t.Parallel()
		b := build{preload: jemallocLib, dir: t.TempDir()}
		b.findLost(t, []string{"/bin/sh", "-c", `"$0" run; true`, b.compile(t, "lost_blocks")})
	})
	for _, library := range []string{jemallocLib, tcmallocLib} {
		t.Run("attached/"+library, func(t *testing.T) {
			t.Parallel()
			program := exec.Command(testProgram("leak_corpus"), "attach")
			program.Env = append(program.Environ(), "LD_PRELOAD="+privateLibrary(t, library))
			a := attachToProgram(t, program)
			a.proceed(t)
			var r report.Report
			for !r.Final {
				r = a.next(t)
			}
			if code := a.code(); code != 0 {
				t.Errorf("the program's exit code is %d", code)
			}
			compareSums(t, &r, corpusSums(t, a.said.Bytes(), "only_from_a_freed_block"))
			if check := r.Processes[0].LeakCheck; check.UnsureBytes == 0 || check.UnsureBytes > check.RootBytes {
				t.Errorf("%d of %d bytes of roots may be the allocator's: what was freed before the attach is", check.UnsureBytes, check.RootBytes)
			}
		})
	}
}

// findLost runs a program that says what it has lost, and returns that.
func (b build) findLost(t *testing.T, program []string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report")
	cmd := memtraceCommand(t, append([]string{"run", "--leaks", "--format", "json", "--report", file, "--"}, program...)...)
	cmd.Env = append(cmd.Env, b.env(t)...)
	out, code := finishLeaks(t, cmd)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	compareSums(t, readReport(t, file), corpusSums(t, out, ""))
	return out
}

// TestMemoryThatJemallocGaveBack: its records still tell of memory that it has
// unmapped, and where the program has mapped its own since. All blocks hang from there.
func TestMemoryThatJemallocGaveBack(t *testing.T) {
	t.Parallel()
	b := build{preload: jemallocLib, dir: t.TempDir()}
	cmd := memtraceCommand(t, "run", "--fail-on", "definite,indirect,possible", "--", b.compile(t, "given_back"))
	cmd.Env = append(append(cmd.Env, b.env(t)...), "MALLOC_CONF=retain:false,dirty_decay_ms:0,muzzy_decay_ms:0")
	out, code := finishLeaks(t, cmd)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, again, _ := strings.Cut(string(out), "again "); again == "" || again[0] == '0' {
		t.Errorf("nothing was mapped where a block had been, so nothing is shown: %s", out)
	}
}

// TestOwnProgramBreak: what a program keeps in [heap] beside its allocator is held,
// and so is what its first thread's variables hold, which a static program has there.
func TestOwnProgramBreak(t *testing.T) {
	t.Parallel()
	for how, flags := range map[string][]string{"shared": nil, "static": {"-static"}} {
		for _, when := range []string{exitBefore, exitAfter} {
			t.Run(how+"/"+when, func(t *testing.T) {
				t.Parallel()
				b := build{dir: t.TempDir(), flags: flags}
				file := filepath.Join(b.dir, "report")
				_, code := runLeaks(t, "run", "--leaks", "--at-exit", when, "--format", "json", "--report", file, "--", b.compile(t, "own_break"))
				if code != 0 {
					t.Errorf("exit code %d", code)
				}
				r := readReport(t, file)
				for _, l := range r.Leaks {
					if l.Kind == "definite" && l.Bytes != 300 || l.Kind == "indirect" {
						t.Errorf("%d blocks of %d bytes are %s, want one of 300", l.Count, l.Bytes, l.Kind)
					}
				}
				if len(r.Leaks) == 0 {
					t.Error("the block that is lost is none")
				}
				by := r.Processes[0].LeakCheck.ReachableBy
				if want := (report.LeakSum{Count: 10, Bytes: 1000}); runtime.GOARCH == "amd64" && by.ThreadLocal != want {
					t.Errorf("thread-local variables hold %+v, want %+v", by.ThreadLocal, want)
				}
			})
		}
	}
}
