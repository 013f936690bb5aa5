//go:build integration

package reach

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// A peer is another leak checker.
type peer struct {
	flags   []string // of the compiler
	command func(program string) *exec.Cmd
	parse   func(out string) map[uint64]string // kind by size of block
}

var peers = map[string]peer{
	"LeakSanitizer": {
		flags: []string{"-fsanitize=leak"},
		command: func(program string) *exec.Cmd {
			cmd := exec.Command(program, "x")
			cmd.Env = append(os.Environ(), "LSAN_OPTIONS=exitcode=0:max_leaks=0:print_suppressions=0:allocator_may_return_null=1")
			return cmd
		},
		parse: parseLSan,
	},
	"Valgrind": {
		command: func(program string) *exec.Cmd {
			return exec.Command("valgrind", "--leak-check=full", "--show-leak-kinds=all", "--leak-resolution=high",
				"--run-libc-freeres=no", "--run-cxx-freeres=no", "--num-callers=30", program, "x")
		},
		parse: parseValgrind,
	},
}

// TestRustCorpus scans the program of Rust's ways, as it runs and while it
// stands still.
func TestRustCorpus(t *testing.T) {
	program := filepath.Join(t.TempDir(), "leak_corpus_rust")
	compile(t, "rustc", "--edition", "2021", "-O", "-o", program, programs+"/leak_corpus.rs")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := startCorpus(t, program)
	r, err := Scan(c.process, c.each, Options{AllSeen: true})
	if err != nil {
		t.Fatal(err)
	}
	c.check(t, r, nil)
	if r, err = Scan(c.process, c.each, Options{Threads: stopAll(t, c.process), AllSeen: true}); err != nil {
		t.Fatal(err)
	}
	c.check(t, r, nil)
}

func TestPeersSayTheSameOfTheCorpus(t *testing.T) {
	for name, p := range peers {
		t.Run(name, func(t *testing.T) {
			program := buildCorpus(t, append([]string{"-DNO_TABLE"}, p.flags...)...)
			cmd := p.command(program)
			var out, complaints bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &complaints
			if cmd.Env == nil {
				cmd.Env = os.Environ()
			}
			cmd.Env = append(cmd.Env, "LEAK_TLS="+filepath.Join(filepath.Dir(program), "libleak_tls.so"))
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, complaints.String())
			}
			c := &corpus{want: make(map[uint64][]string), names: make(map[uint64]string)}
			c.read(t, &out)
			got := p.parse(complaints.String())
			for size, want := range c.want {
				if strings.HasPrefix(c.names[size], "circle_of_") {
					continue // both sum up blocks of one site, of whatever size
				}
				ours := want[0]
				if other, ok := differs[name][c.names[size]]; ok {
					ours = other
				}
				if ours == "reachable" {
					ours = ""
				}
				theirs := got[size]
				if theirs == "reachable" {
					theirs = ""
				}
				if theirs != ours {
					t.Errorf("%s: %q, want %q", c.names[size], theirs, ours)
				}
			}
		})
	}
}

var lsanLine = regexp.MustCompile(`(Direct|Indirect) leak of (\d+) byte\(s\) in (\d+) object`)

func parseLSan(out string) map[uint64]string {
	got := make(map[uint64]string)
	for _, m := range lsanLine.FindAllStringSubmatch(out, -1) {
		bytes, _ := strconv.ParseUint(m[2], 10, 64)
		n, _ := strconv.ParseUint(m[3], 10, 64)
		kind := map[string]string{"Direct": "definite", "Indirect": "indirect"}[m[1]]
		if size := bytes / n; got[size] == "" || kind == "definite" {
			got[size] = kind
		}
	}
	return got
}

var valgrindLine = regexp.MustCompile(`([\d,]+)(?: \([\d,]+ direct, [\d,]+ indirect\))? bytes in ([\d,]+) blocks are (definitely lost|indirectly lost|possibly lost|still reachable)`)

func parseValgrind(out string) map[uint64]string {
	kinds := map[string]string{"definitely lost": "definite", "indirectly lost": "indirect", "possibly lost": "possible", "still reachable": "reachable"}
	got := make(map[uint64]string)
	direct := regexp.MustCompile(`([\d,]+) direct`)
	for _, m := range valgrindLine.FindAllStringSubmatch(out, -1) {
		bytes := m[1]
		if d := direct.FindStringSubmatch(m[0]); d != nil {
			bytes = d[1]
		}
		total, _ := strconv.ParseUint(strings.ReplaceAll(bytes, ",", ""), 10, 64)
		n, _ := strconv.ParseUint(strings.ReplaceAll(m[2], ",", ""), 10, 64)
		size, kind := total/n, kinds[m[3]]
		if got[size] == "" || kind == "definite" {
			got[size] = kind
		}
	}
	return got
}

// differs is what a peer says otherwise of a case. The table in
// docs/reachability.md gives the reasons.
var differs = map[string]map[string]string{
	"LeakSanitizer": {
		"interior": "", "behind_interior": "", "intrusive_list_1": "", "intrusive_list_2": "",
		"unaligned": "definite", "tagged_in_high_bits": "definite",
		"mmapped_memory": "definite", "shared_with_child": "definite",
		"shared_ptr_cycle": "indirect",
	},
	"Valgrind": {
		"unaligned": "definite", "tagged_in_high_bits": "definite", "tagged_in_low_bits": "possible",
		"thread_tls_dynamic": "possible", "register": "definite",
	},
}
