//go:build integration && services

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// stepsOf are the commands that an action's steps run, in order.
var stepsOf = regexp.MustCompile(`(?m)^ +run: '(.*)'$`)

// scriptOf is the one script of a GitLab template: the lines below "script:".
var scriptOf = regexp.MustCompile(`(?m)^  script:\n    - \|\n((?:      .*\n)+)`)

// A step of a CI job: bash with an environment of its own.
func ciStep(t *testing.T, dir, script string, env ...string) int {
	t.Helper()
	cmd := exec.Command("bash", "-eo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = dir, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, env...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s\n%s", script, out)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

func contains(t *testing.T, file string, words ...string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	for _, word := range words {
		if !strings.Contains(string(text), word) {
			t.Errorf("%s lacks %q:\n%.2000s", filepath.Base(file), word, text)
		}
	}
}

// ciPrograms are two jobs: the corpus' program leaks by its own account, two_threads loses nothing.
var ciPrograms = []struct {
	name, command, outcome string
	code                   int
}{
	{"leaking", "true && " + testProgramPath("leak_corpus") + " x", `"failed":true`, exitFound},
	{"clean", "true && " + testProgramPath("two_threads") + " run", `"failed":false`, 0},
}

func testProgramPath(name string) string {
	path, err := filepath.Abs(testProgram(name))
	if err != nil {
		panic(err)
	}
	return path
}

func TestGitHubAction(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../packaging/github-action/action.yml")
	if err != nil {
		t.Fatal(err)
	}
	steps := stepsOf.FindAllStringSubmatch(string(text), -1)
	if len(steps) != 2 {
		t.Fatalf("the action has %d steps", len(steps))
	}
	action, err := filepath.Abs("../../packaging/github-action")
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range ciPrograms {
		t.Run(job.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			output, summary := filepath.Join(dir, "output"), filepath.Join(dir, "step-summary")
			env := []string{"GITHUB_ACTIONS=true", "GITHUB_ACTION_PATH=" + action, "GITHUB_WORKSPACE=" + dir, "RUNNER_TEMP=" + dir,
				"GITHUB_OUTPUT=" + output, "GITHUB_STEP_SUMMARY=" + summary, "MEMTRACE_RELEASES=file://" + releaseOf(t, "9.9.9"),
				"INPUT_VERSION=9.9.9", "INPUT_MEMTRACE="}
			if code := ciStep(t, dir, steps[0][1], env...); code != 0 {
				t.Fatalf("obtain ended with %d", code)
			}
			text, _ := os.ReadFile(output)
			_, binary, ok := strings.Cut(strings.TrimSpace(string(text)), "memtrace=")
			if !ok {
				t.Fatalf("obtain says no memtrace: %q", text)
			}
			code := ciStep(t, dir, steps[1][1], append(env, "MEMTRACE_BINARY="+binary, "INPUT_COMMAND="+job.command,
				"INPUT_FAIL_ON=definite", "INPUT_ARGUMENTS=--interval 10s", "INPUT_OUTPUT=kept")...)
			if code != job.code {
				t.Errorf("the check ended with %d, want %d", code, job.code)
			}
			contains(t, filepath.Join(dir, "kept/report.json"), `"schema":"memtrace.report/1"`, job.outcome)
			contains(t, filepath.Join(dir, "kept/memtrace.sarif"), `"2.1.0"`)
			contains(t, summary, "memtrace: ")
			contains(t, output, "exit-code=", "sarif=kept/memtrace.sarif")
		})
	}
}

func TestGitLabTemplate(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../packaging/gitlab/memtrace.yml")
	if err != nil {
		t.Fatal(err)
	}
	m := scriptOf.FindStringSubmatch(string(text))
	if m == nil {
		t.Fatal("the template has no script")
	}
	script := strings.ReplaceAll(m[1], "\n      ", "\n")
	for _, job := range ciPrograms {
		t.Run(job.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			code := ciStep(t, dir, script, "CI_PROJECT_DIR="+dir, "LEAKS_MEMTRACE=", "LEAKS_VERSION=9.9.9", "LEAKS_ARGUMENTS=--interval 10s",
				"LEAKS_RELEASES=file://"+releaseOf(t, "9.9.9"), "LEAKS_FAIL_ON=definite", "LEAKS_COMMAND="+job.command)
			if code != job.code {
				t.Errorf("the job ended with %d, want %d", code, job.code)
			}
			contains(t, filepath.Join(dir, "memtrace-report/report.json"), job.outcome)
			contains(t, filepath.Join(dir, "memtrace-report/junit.xml"), "<testsuite")
		})
	}
}

// A release whose file is not what its checksums say is not run.
func TestActionRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	releases, dir := releaseOf(t, "9.9.9"), t.TempDir()
	sums := filepath.Join(releases, "v9.9.9", "SHA256SUMS")
	text, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Repeat("0", 64) + string(text[64:])
	if err := os.WriteFile(sums, []byte(other), 0o644); err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(dir, "output")
	obtain, err := filepath.Abs("../../packaging/github-action/obtain")
	if err != nil {
		t.Fatal(err)
	}
	code := ciStep(t, dir, obtain, "RUNNER_TEMP="+dir, "GITHUB_OUTPUT="+output, "INPUT_VERSION=9.9.9", "MEMTRACE_RELEASES=file://"+releases)
	if _, err := os.Stat(output); code == 0 || err == nil {
		t.Errorf("obtain ended with %d and took a file that is not the released one", code)
	}
}

// releaseOf makes a directory of releases with the memtrace under test as one of them, as make release lays them out.
func releaseOf(t *testing.T, version string) string {
	t.Helper()
	binary, err := filepath.Abs(memtraceCommand(t).Path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name := "memtrace-" + version + "-linux-$arch"
	script := `case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; esac; mkdir -p ` + name + `/bin v` + version + `
		printf '#!/bin/sh\n` + asMemtrace + `=1 exec "%s" "$@"\n' '` + binary + `' >` + name + `/bin/memtrace; chmod +x ` + name + `/bin/memtrace; tar -czf v` + version + `/` + name + `.tar.gz ` + name + `
		cd v` + version + `; sha256sum *.tar.gz >SHA256SUMS`
	if code := ciStep(t, dir, script); code != 0 {
		t.Fatalf("making a release ended with %d", code)
	}
	return dir
}
