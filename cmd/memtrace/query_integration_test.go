//go:build integration

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/memtrace/memtrace/analyzer/query"
)

// TestRecordingAnswersQuestions asks recordings of programs what those say of their blocks themselves.
func TestRecordingAnswersQuestions(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cross_thread_free", "temporary", "two_threads"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, said := answeredRecording(t, name)
			for i := range said.Sites {
				askOfSite(t, file, &said.Sites[i])
			}
		})
	}
	t.Run("threads", func(t *testing.T) {
		t.Parallel()
		file, said := answeredRecording(t, "cross_thread_free")
		other := ask(t, file, `function == "produce" && thread != free_thread`).Total
		if other.Count != said.Total.Free || other.FreedCount != said.Total.Free || other.Bytes != said.Total.AllocBytes-said.Total.LiveBytes {
			t.Errorf("%+v freed by another thread, the program says %+v", other, said.Total)
		}
		if same := ask(t, file, `function == "produce" && thread == free_thread`).Total; same.Count != 0 {
			t.Errorf("%+v freed by the thread that allocated them, the program says none", same)
		}
	})
}

// answeredRecording records a test program, and returns what it says itself, too.
func answeredRecording(t *testing.T, name string) (file string, said answer) {
	t.Helper()
	dir := t.TempDir()
	file, text := filepath.Join(dir, "trace.memtrace"), filepath.Join(dir, "answer")
	cmd := memtraceCommand(t, "record", "-o", file, "--", "sh", "-c", `exec "$0" run >"$1"`, testProgram(name), text)
	if out, code := finishLeaks(t, cmd); code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	line, err := os.ReadFile(text)
	if err != nil {
		t.Fatal(err)
	}
	return file, parseAnswer(t, string(line))
}

func ask(t *testing.T, file, expression string) *query.Result {
	t.Helper()
	out, complaints, code := memtraceSays(t, "query", file, expression, "--format", "json")
	res := new(query.Result)
	if err := json.Unmarshal([]byte(out), res); err != nil || code != 0 {
		t.Fatalf("%s: exit code %d, %v: %s", expression, code, err, complaints)
	}
	return res
}

// askOfSite compares a site's figures with the program's.
func askOfSite(t *testing.T, file string, site *counts) {
	t.Helper()
	own := ask(t, file, fmt.Sprintf("function == %q", site.Function)).Total
	got := []uint64{own.Count, own.Bytes, own.FreedCount, own.TemporaryCount, own.LiveCount, own.LiveBytes}
	want := []uint64{site.Alloc, site.AllocBytes, site.Free, site.Temporary, site.LiveCount, site.LiveBytes}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %d, the program says %d (allocated, bytes, freed, temporary, live, bytes)", site.Function, got, want)
	}
}
