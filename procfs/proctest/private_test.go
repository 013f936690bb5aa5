package proctest_test

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/proctest"
)

// TestPrivate: a copy maps files of its own only, and does what the program does.
func TestPrivate(t *testing.T) {
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	p := proctest.Copy(t, cat, "cat")
	cmd := p.Command()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "x\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "x\n" {
		t.Fatalf("it said %q: %v", line, err)
	}
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	process, err := fs.Process(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	files := 0
	err = process.Maps(func(v *procfs.VMA) {
		if v.Kind != procfs.KindFile {
			return
		}
		files++
		if path := string(v.Path); !strings.HasPrefix(path, filepath.Dir(p.Path)+"/") {
			t.Errorf("it maps %s", path)
		}
	})
	if err != nil || files == 0 {
		t.Errorf("%d files are mapped: %v", files, err)
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
