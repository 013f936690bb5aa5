//go:build linux && !viewer

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/query"
	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/tracer/event"
)

// queriedFile is a recording of a process that reads 100 lines and keeps every tenth: blocks of 64 bytes, a
// millisecond apart, that live 10 µs; and of one buffer that a realloc moves.
func queriedFile(t *testing.T) string {
	t.Helper()
	const begin, pid = 1_000_000_000, 42
	path := filepath.Join(t.TempDir(), "lines.memtrace")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	config := analyzer.Config{Start: begin, Seed: [2]uint64{3, 4}}
	w, err := recording.NewWriter(f, recording.Header{Version: "test", Config: recording.ConfigOf(config, nil)}, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := analyzer.New(config)
	defer a.Close()
	take := func(in input.Input) { a.Take(in); w.Take(in) }
	take(input.Started{ProcessInfo: input.ProcessInfo{PID: pid, Comm: "lines", Allocators: []string{"glibc libc.so.6"}}})
	for id := event.StackID(1); id <= 2; id++ {
		take(input.Stack{Stack: event.Stack{ID: id, PID: pid, Frames: []uint64{uint64(id), 9}}})
	}
	for i := range uint64(100) {
		e := event.Event{Time: begin + i*1_000_000, PID: pid, TID: pid, Kind: event.Alloc, Addr: 0x1000 + i*64, Size: 64, Stack: 1}
		batch := []event.Event{e}
		if e.Kind = event.Free; i%10 != 0 {
			e.Time += 10_000
			batch = append(batch, e)
		}
		take(&input.Events{Events: batch})
	}
	take(&input.Events{Events: []event.Event{
		{Time: begin + 100_000_000, PID: pid, TID: 43, Kind: event.Alloc, Addr: 0x9000, Size: 5000, Stack: 2},
		{Time: begin + 101_000_000, Began: begin + 101_000_000, PID: pid, TID: pid, Kind: event.Realloc, Old: 0x9000, Addr: 0xb000, Size: 10_000, Stack: 2},
	}})
	take(input.Instant{Now: begin + 200_000_000})
	for _, u := range a.Unnamed(analyzer.ReportOptions{Final: true}) {
		name := map[uint64]string{1: "read_line\x1b[31m", 2: "grow"}[u.Addrs[0]]
		in := input.Names{Stack: u.Stack, PID: uint32(u.PID), ID: u.ID, Last: true}
		for i, f := range []string{name, "main"} {
			in.Frames = append(in.Frames, &input.Frame{Function: f, File: "/src/lines.c", Line: 7 + i, Module: "/bin/lines"})
		}
		take(in)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// memtraceSays runs memtrace and returns its outputs and exit code.
func memtraceSays(t *testing.T, args ...string) (out, complaints string, code int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asMemtrace+"=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// TestQuery asks a recording in which all answers are known by its making.
func TestQuery(t *testing.T) {
	file := queriedFile(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"lifetime < 1ms && function ~ 'read'"}, `lifetime < 1ms && function ~ 'read', from 0s to 200ms: 90 blocks of 5.62 KiB; 0 live with 0 B

   BYTES  COUNT  LIVE  LIVE COUNT  FREED  TEMP  MEAN LIFE  LONGEST  FUNCTION < CALLERS
5.62 KiB     90   0 B           0     90    90       10µs     10µs  read_line\x1b[31m lines.c:7 < main
`},
		{[]string{"--by", "function", "--sort", "live", "--format", "csv"}, `bytes,count,live_bytes,live_count,freed_count,temporary_count,mean_lifetime_ns,max_lifetime_ns,leaked_bytes,bytes_se,count_se,function
15000,2,10000,1,1,0,1000000,99000000,0,0,0,grow
6400,100,640,10,90,90,10000,200000000,0,0,0,read_line\x1b[31m
`},
		{[]string{"thread != free_thread", "--by", "none"}, `thread != free_thread, from 0s to 200ms: 1 block of 4.88 KiB; 0 live with 0 B

ADDRESS      SIZE   BORN  ENDED  LIFETIME  PID  THREAD  FREED BY   KIND      END  FUNCTION
 0x9000  4.88 KiB  100ms  101ms       1ms   42      43        42  alloc  realloc  grow
`},
		{[]string{"size > 1KiB", "--events"}, `size > 1KiB, from 0s to 200ms: 2 blocks of 14.6 KiB; 1 live with 9.77 KiB

       TIME    EVENT         ADDRESS      SIZE  PID  THREAD  FUNCTION
0.100000000    alloc  birth   0x9000  4.88 KiB   42      43  grow
0.101000000  realloc    end   0x9000  4.88 KiB   42      42  grow
0.101000000  realloc  birth   0xb000  9.77 KiB   42      42  grow
`},
		{[]string{"size == 64", "--timeline", "50ms", "--from", "25ms", "--to", "100ms"}, `size == 64, from 25ms to 100ms: 78 blocks of 4.88 KiB; 10 live with 640 B

 LIVE  LIVE COUNT      BORN  BORN COUNT     ENDED  ENDED COUNT  FROM
512 B           8  3.12 KiB          50  2.81 KiB           45  25ms
640 B          10  1.56 KiB          25  1.44 KiB           23  75ms
`},
		{[]string{"--at", "35.005ms", "--by", "age", "--sort", "key"}, `Of all blocks, at 35ms: 5 blocks of 320 B; 5 live with 320 B

BYTES  COUNT   LIVE  LIVE COUNT  FREED  TEMP  MEAN LIFE  LONGEST  AGE
 64 B      1   64 B           1      0     0          -      5µs  below 10µs
 64 B      1   64 B           1      0     0          -   5.01ms  below 10ms
192 B      3  192 B           3      0     0          -     35ms  below 100ms
`},
		{[]string{"realloc_chain > 0", "--by", "thread", "--top", "1"}, `realloc_chain > 0, from 0s to 200ms: 1 block of 9.77 KiB; 1 live with 9.77 KiB

   BYTES  COUNT      LIVE  LIVE COUNT  FREED  TEMP  MEAN LIFE  LONGEST  THREAD
9.77 KiB      1  9.77 KiB           1      0     0          -     99ms  42
`},
	} {
		out, complaints, code := memtraceSays(t, append([]string{"query", file}, c.args...)...)
		if out != c.want || code != 0 || complaints != "" {
			t.Errorf("%q: exit code %d, %s\ngot\n%s\nwant\n%s", c.args, code, complaints, out, c.want)
		}
	}
}

// TestQueryWithoutLeakCheck says that nobody looked for leaks, rather than that there are none, and only if asked.
func TestQueryWithoutLeakCheck(t *testing.T) {
	file := queriedFile(t)
	for _, args := range [][]string{{"leaked"}, {"!leaked"}, {"leak == 'definite'"}, {"--by", "leak"}, {"--sort", "leaked"}, {"leaked", "--to", "50ms"}, {"leaked", "--format", "json"}} {
		if _, notes, code := memtraceSays(t, append([]string{"query", file}, args...)...); !strings.Contains(notes, "Nobody looked for leaks") || !strings.Contains(notes, "Record with --leaks") || code != 0 {
			t.Errorf("%q: exit code %d, stderr %q", args, code, notes)
		}
	}
	if out, _, _ := memtraceSays(t, "query", file, "leaked", "--format", "json"); !strings.Contains(out, "Nobody looked for leaks") {
		t.Errorf("JSON has no note:\n%s", out)
	}
}

// TestQueryDividesByNothing: what is divided by a figure that is 0 is not known.
func TestQueryDividesByNothing(t *testing.T) {
	for _, expression := range []string{"size / (addr - addr) > 1", "!(size / (addr - addr) != 1) && size / (addr - addr) == 1", "size % (addr - addr) == 1"} {
		out, _, code := memtraceSays(t, "query", queriedFile(t), expression)
		if !strings.Contains(out, ": 0 blocks of 0 B") || code != 0 {
			t.Errorf("%s: exit code %d\n%s", expression, code, out)
		}
	}
}

// TestQueryJSON sees that the document is one, and complete.
func TestQueryJSON(t *testing.T) {
	out, _, _ := memtraceSays(t, "query", queriedFile(t), "--format", "json")
	var doc query.Result
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Schema != query.Schema || doc.Total.Count != 102 || doc.ToNS != 200_000_000 || len(doc.Groups) != 2 || len(doc.Groups[0].Stack) != 2 {
		t.Errorf("%s", out)
	}
	if strings.Contains(out, "null") || !strings.Contains(out, `"notes": []`) {
		t.Errorf("an array is null: %s", out)
	}
}

// TestQueryMistakes are answered with what to do.
func TestQueryMistakes(t *testing.T) {
	file := queriedFile(t)
	saved := filepath.Join(t.TempDir(), "saved.json")
	if err := os.WriteFile(saved, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{file, "size > 3ms"}, 2, "memtrace: query: size is a size in bytes, and this is a time\n\n    size > 3ms\n           ^^^\n"},
		{[]string{file, "addr / 0 > 1"}, 2, "memtrace: query: nothing can be divided by 0\n\n    addr / 0 > 1\n           ^\n"},
		{[]string{file, "addr % 0 == 1"}, 2, "division by 0"},
		{[]string{file, "size >", "3"}, 2, "in quotes"},
		{[]string{file, "--by", "colour"}, 2, "none of site, function"},
		{[]string{file, "--by", "none", "--sort", "count"}, 2, "single blocks are not sorted by"},
		{[]string{file, "--events", "--by", "site"}, 2, "have no groups"},
		{[]string{file, "--at", "5s"}, 1, "the recording has no such time: it lasts"},
		{[]string{file, "--at", "5"}, 2, `"5" has no unit: write 5s`},
		{[]string{file + "@50ms", "--from", "1ms"}, 2, "FILE@50ms and --from 1ms: give one of them"},
		{[]string{file + "@noon"}, 1, `is there, but "noon" is no time: `},
		{[]string{file, "--from", "100ms", "--to", "50ms"}, 2, "--from 100ms is after --to 50ms"},
		{[]string{file, "--at", "1s", "--to", "50ms"}, 2, "give the one or the other"},
		{[]string{saved}, 1, "it is no recording"},
		{[]string{"/nonexistent"}, 1, "no such file"},
	} {
		out, complaints, code := memtraceSays(t, append([]string{"query"}, c.args...)...)
		if code != c.code || !strings.Contains(complaints, c.want) || out != "" {
			t.Errorf("%q: exit code %d, %q %q; want %d, %q", c.args, code, complaints, out, c.code, c.want)
		}
	}
}

// TestReportOfSpan asks what happened in a span of a recording of which all is known by its making.
func TestReportOfSpan(t *testing.T) {
	t.Parallel()
	file := queriedFile(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--from", "50ms", "--to", "100200us"}, `From 50ms to 100ms: 50 blocks of 7.95 KiB born, of which 5 with 5.13 KiB survived and 45 with 2.81 KiB ended; 45 blocks of 2.81 KiB ended in all
Live: 6 blocks of 384 B before, 11 blocks of 5.51 KiB after

    BORN  BORN COUNT     ENDED  ENDED COUNT  SURVIVED   CHURNED      LIVE  FUNCTION < CALLERS
4.88 KiB           1       0 B            0  4.88 KiB       0 B  4.88 KiB  grow lines.c:7 < main
3.06 KiB          49  2.81 KiB           45     256 B  2.81 KiB     640 B  read_line\x1b[31m lines.c:7 < main
`},
		{[]string{"--from", "100500us", "--by", "function", "--format", "csv"}, `before_bytes,before_count,born_bytes,born_count,ended_bytes,ended_count,freed_count,survived_bytes,survived_count,churned_bytes,churned_count,live_bytes,live_count,function
5000,1,10000,1,5000,1,1,10000,1,0,0,10000,1,grow
640,10,0,0,0,0,0,0,0,0,0,640,10,read_line\x1b[31m
`},
		{[]string{"--to", "end", "--sort", "ended", "--top", "1"}, `From 0s to 200ms: 102 blocks of 20.9 KiB born, of which 11 with 10.4 KiB survived and 91 with 10.5 KiB ended; 91 blocks of 10.5 KiB ended in all
Live: 0 blocks of 0 B before, 11 blocks of 10.4 KiB after

    BORN  BORN COUNT     ENDED  ENDED COUNT  SURVIVED   CHURNED   LIVE  FUNCTION < CALLERS
6.25 KiB         100  5.62 KiB           90     640 B  5.62 KiB  640 B  read_line\x1b[31m lines.c:7 < main
… and 1 more groups: 2 blocks of 14.6 KiB born, 1 block of 4.88 KiB ended (--top 0 shows more)
`},
	} {
		out, complaints, code := memtraceSays(t, append([]string{"report", file}, c.args...)...)
		if out != c.want || code != 0 {
			t.Errorf("%v: %d, %s\n%s\nwant\n%s", c.args, code, complaints, out, c.want)
		}
	}
	for _, args := range [][]string{
		{"--from", "50ms", "--at", "60ms"}, {"--from", "50ms", "--format", "markdown"}, {"--from", "50ms", "--sort", "peak"},
		{"--from", "60ms", "--to", "50ms"}, {"--from", "5"}, {"--to", "1s", "--frames", "3"}, {"--from", "50ms", "--by", "thread"},
	} {
		if out, complaints, code := memtraceSays(t, append([]string{"report", file}, args...)...); code == 0 || out != "" || complaints == "" {
			t.Errorf("%v: %d, %q, %q", args, code, out, complaints)
		}
	}
}
