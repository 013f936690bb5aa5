// Command notices writes the licences of all modules that are in a binary of Go's, as they ask for.
//
//	notices BINARY
//
// It runs in memtrace's checkout: the texts are read from where the go command has the modules.
package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if err := write(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: notices BINARY")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "memtrace contains the following software, under the licences that follow each name.\n")
	root, err := goCommand("env", "GOROOT")
	if err != nil {
		return err
	}
	if err := notice(w, "The Go standard library, "+info.GoVersion, strings.TrimSpace(root)); err != nil {
		return err
	}
	dirs, err := moduleDirs()
	if err != nil {
		return err
	}
	for _, dep := range info.Deps {
		if err := notice(w, dep.Path+" "+dep.Version, dirs[dep.Path]); err != nil {
			return err
		}
	}
	return nil
}

// moduleDirs tells where each module that memtrace is built from lies.
func moduleDirs() (map[string]string, error) {
	out, err := goCommand("list", "-deps", "-f", "{{with .Module}}{{.Path}}\t{{.Dir}}{{end}}", "./cmd/memtrace")
	dirs := map[string]string{}
	for line := range strings.Lines(out) {
		path, dir, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		dirs[path] = dir
	}
	return dirs, err
}

func goCommand(args ...string) (string, error) {
	command := exec.Command("go", args...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", args[0], err)
	}
	return string(out), nil
}

var line = strings.Repeat("=", 80)

// notice writes a module's licence. A module without one may not be handed on.
func notice(w io.Writer, title, dir string) error {
	if dir == "" {
		return fmt.Errorf("%s is not in the module cache", title)
	}
	found := false
	for _, pattern := range []string{"LICEN[SC]E*", "COPYING*", "NOTICE*"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			found = true
			fmt.Fprintf(w, "\n%[1]s\n%[2]s (%[3]s)\n%[1]s\n\n%[4]s\n", line, title, filepath.Base(file), bytes.TrimSpace(text))
		}
	}
	if !found {
		return fmt.Errorf("%s has no licence in %s", title, dir)
	}
	return nil
}
