//go:build integration && services

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// jitScript allocates from native memory through two functions that V8
// compiles and, as told, does not inline.
const jitScript = `
function innermost(n) { return Buffer.allocUnsafeSlow(n); }
function middle(n) { return innermost(n).length; }
function outermost(n) { let sum = 0; for (let i = 0; i < 300; i++) sum += middle(n + i % 3); return sum; }
for (let i = 0; i < 50; i++) outermost(100000);
console.log("ready");
setInterval(() => outermost(100000), 5);
`

// TestNodeJIT follows stacks through code that V8 made as the program ran:
// by frame pointers, which they are marked with, down to _start, with the
// names from the map that V8 writes.
func TestNodeJIT(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "jit.js")
	if err := os.WriteFile(script, []byte(jitScript), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(need(t, "node"), "--perf-basic-prof", "--max-inlined-bytecode-size=0", script)
	cmd.Dir = filepath.Dir(script) // it leaves a log
	node := spawn(t, cmd)
	t.Cleanup(func() { _ = os.Remove(fmt.Sprintf("/tmp/perf-%d.map", node.pid())) })
	node.lineWith("ready")
	m := startTracing(t, []int{node.pid()}, "--stack-depth", "127")
	for m.report().Events.Alloc < 3*300 { // of outermost
	}
	r := m.interrupt()
	right := 0
	for i := range r.Sites {
		if s := &r.Sites[i]; s.FramePointers && !s.Truncated && calls(s, "innermost", "middle", "outermost", "_start") &&
			strings.Contains(s.Function, "innermost ") {
			right++
		}
	}
	if right == 0 || r.Stacks.FPBottom == 0 {
		t.Errorf("no stack leads through innermost, middle and outermost to _start; they end so: %+v", r.Stacks)
		for i := range r.Sites[:min(3, len(r.Sites))] {
			t.Logf("%+v", r.Sites[i].Stack)
		}
	}
}

// calls reports whether functions of these names follow each other in a stack,
// with others between them.
func calls(s *report.Site, names ...string) bool {
	for i := range s.Stack {
		if len(names) > 0 && slices.Contains(strings.FieldsFunc(s.Stack[i].Function, notInName), names[0]) {
			names = names[1:]
		}
	}
	return len(names) == 0
}

// notInName splits "JS:*innermost /tmp/jit.js:2:20".
func notInName(r rune) bool { return strings.ContainsRune(" :*~^+", r) }
