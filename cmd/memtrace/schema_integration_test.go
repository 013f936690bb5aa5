//go:build integration

package main

import (
	"bytes"
	"os/exec"
	"strconv"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Reports of real programs fulfil the schema in docs/: traced fully, sampled, checked for leaks, grouped, with children,
// and of a process that was not traced.
func TestRealReportsFulfilTheSchema(t *testing.T) {
	t.Parallel()
	schema, err := jsonschema.NewCompiler().Compile("../../docs/schema/memtrace.report-1.json")
	if err != nil {
		t.Fatal(err)
	}
	running := exec.Command("sleep", "600")
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = running.Process.Kill() })
	for _, args := range [][]string{
		{"run", "--format", "json", "--by", "function", "--leaks", "--fail-on", "leak>1TiB", "--", testProgram("leak_exec"), "3", "5"},
		{"run", "--format", "json", "--by", "size", "--sample-bytes", "4KiB", "--", testProgram("temporary"), "run"},
		{"run", "--format", "json", "--", "sh", "-c", "ls >/dev/null"},
		{"leaks", "--format", "json", "-p", strconv.Itoa(running.Process.Pid)},
	} {
		var out, said bytes.Buffer
		cmd := memtraceCommand(t, args...)
		cmd.Stdout, cmd.Stderr = &out, &said
		_ = cmd.Run() // whatever was found
		for lines := range bytes.Lines(out.Bytes()) {
			if !bytes.HasPrefix(lines, []byte(`{"schema"`)) {
				continue // the program's own output
			}
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(lines))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(doc); err != nil {
				t.Errorf("%q: %v", args, err)
			}
		}
		if !bytes.Contains(out.Bytes(), []byte(`{"schema":"memtrace.report/1"`)) {
			t.Errorf("%q: no Report:\n%s%s", args, out.Bytes(), said.Bytes())
		}
	}
}
