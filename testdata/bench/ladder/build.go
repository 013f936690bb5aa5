package ladder

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Path is where Build puts a rung's memtrace.
func Path(dir, rung string) string { return filepath.Join(dir, "memtrace-"+rung) }

// Build makes the rungs' memtraces in dir; it is called in the checkout's top directory. Their
// objects are made by the command of bpf/gen.go, and take the place of the production object in the build
// alone, by go build's overlay.
func Build(dir string) error {
	if runtime.GOARCH != "amd64" {
		return errors.New("the ladder is of the programs for amd64")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	sources := filepath.Join(dir, "_sources") // by that name, go's patterns do not match the package in it
	if err := errors.Join(os.RemoveAll(sources), copySources("bpf", sources)); err != nil {
		return err
	}
	if err := checkWhole(dir, sources); err != nil {
		return err
	}
	todo := make(chan string)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for range runtime.NumCPU() {
		wg.Go(func() {
			for rung := range todo {
				err := buildRung(dir, sources, rung)
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	for _, r := range Rungs() {
		if r.Name != Whole {
			todo <- r.Name
		}
	}
	close(todo)
	wg.Wait()
	return failed
}

// object is a compiled object of the architecture.
const object = "memtrace_x86_bpfel.o"

func buildRung(dir, sources, rung string) error {
	made, err := compile(sources, rung)
	if err != nil {
		return err
	}
	top, err := os.Getwd()
	if err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(top, "bpf", object): made}})
	if err != nil {
		return err
	}
	replace := filepath.Join(filepath.Dir(made), "overlay.json")
	if err := write(replace, string(overlay)); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.linkedVersion=ladder-"+rung,
		"-overlay", replace, "-o", Path(dir, rung), "./cmd/memtrace")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	return runCommand(build, "build memtrace for the rung "+rung)
}

// compile makes a rung's object and returns its path.
func compile(sources, rung string) (string, error) {
	text, err := os.ReadFile("bpf/gen.go")
	if err != nil {
		return "", err
	}
	argv, err := generator(string(text))
	if err != nil {
		return "", err
	}
	to := filepath.Join(filepath.Dir(sources), "_objects", rung)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return "", err
	}
	argv = append(argv, "-DLADDER=RUNG_"+rung)
	argv = slices.Insert(argv, slices.Index(argv, "bpf2go")+1, "-output-dir", to)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = sources
	return filepath.Join(to, object), runCommand(cmd, "compile the rung "+rung)
}

// generator is bpf/gen.go's command, for this architecture alone.
func generator(text string) ([]string, error) {
	_, line, found := strings.Cut(text, "//go:generate ")
	line, _, _ = strings.Cut(line, "\n")
	argv := strings.Fields(line)
	target := slices.Index(argv, "-target")
	if !found || target < 0 || !slices.Contains(argv, "bpf2go") || !slices.Contains(argv, "--") {
		return nil, fmt.Errorf("bpf/gen.go has no command like go tool bpf2go -target ... -- but %q", line)
	}
	argv[target+1] = "amd64"
	return argv, nil
}

// checkWhole makes sure that a copy whose programs go through all of their steps is what memtrace has.
func checkWhole(dir, sources string) error {
	made, err := compile(sources, Whole)
	if err != nil {
		return err
	}
	got, err := code(made)
	if err != nil {
		return err
	}
	want, err := code(filepath.Join("bpf", object))
	if err != nil {
		return err
	}
	for name, text := range want {
		if !bytes.Equal(got[name], text) {
			return fmt.Errorf("the edits change the program in section %s, or bpf/%s is stale: see make check-generate", name, object)
		}
	}
	return nil
}

// code is the instructions of an object, by section.
func code(path string) (map[string][]byte, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sections := make(map[string][]byte)
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_EXECINSTR == 0 || s.Size == 0 {
			continue
		}
		if sections[s.Name], err = s.Data(); err != nil {
			return nil, fmt.Errorf("read section %s of %s: %w", s.Name, path, err)
		}
	}
	if len(sections) == 0 {
		return nil, fmt.Errorf("%s has no programs", path)
	}
	return sections, nil
}

func runCommand(cmd *exec.Cmd, what string) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", what, err, out)
	}
	return nil
}
