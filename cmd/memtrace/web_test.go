//go:build linux && !viewer

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/query"
	"github.com/memtrace/memtrace/analyzer/report"
)

// A shownPage is a memtrace web that runs.
type shownPage struct {
	t      *testing.T
	url    string // with the token
	client *http.Client
	cmd    *exec.Cmd
	errors *bytes.Buffer
}

// showPage runs memtrace web until the test's end, which ends it as Ctrl-C does.
func showPage(t *testing.T, args ...string) *shownPage {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &shownPage{t: t, cmd: exec.Command(self, append([]string{"web"}, args...)...), errors: new(bytes.Buffer)}
	p.cmd.Env = append(os.Environ(), asMemtrace+"=1")
	p.cmd.Stderr = p.errors
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(os.Interrupt)
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("memtrace web: %v: %s", err, p.errors)
		}
	})
	if err != nil || !strings.HasPrefix(line, "http://127.0.0.1:") {
		t.Fatalf("%q, %v: %s", line, err, p.errors)
	}
	jar, _ := cookiejar.New(nil)
	p.url, p.client = strings.TrimSpace(line), &http.Client{Jar: jar}
	p.get("/" + p.url[strings.Index(p.url, "?"):])
	return p
}

// get asks until the answer is there.
func (p *shownPage) get(path string) (code int, body []byte) {
	p.t.Helper()
	base := p.url[:strings.Index(p.url, "/?")]
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		answer, err := p.client.Get(base + path)
		if err != nil {
			p.t.Fatal(err)
		}
		body, err = io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil {
			p.t.Fatal(err)
		}
		if answer.StatusCode != http.StatusAccepted {
			return answer.StatusCode, body
		}
	}
	p.t.Fatalf("%s: no answer within a minute", path)
	return 0, nil
}

// ask asks a question of the page, and reads the answer into doc.
func (p *shownPage) ask(doc any, name string, pairs ...string) {
	p.t.Helper()
	v := url.Values{"file": {"0"}}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	code, body := p.get("/api/" + name + "?" + v.Encode())
	if err := json.Unmarshal(body, doc); err != nil || code != 200 {
		p.t.Fatalf("%s %v: %d, %v: %.500s", name, pairs, code, err, body)
	}
}

type tableAnswer struct {
	Columns []struct{ Key string }
	Rows    []struct {
		Key   string
		Texts []string
		Cells []float64
	}
	Matching int
	Command  string
}

// cell is a figure of a row by its column.
func (a *tableAnswer) cell(row int, column string) float64 {
	for i, c := range a.Columns {
		if c.Key == column {
			return a.Rows[row].Cells[i-1-len(a.Rows[row].Texts)]
		}
	}
	return -1
}

type flameAnswer struct {
	Picture struct {
		Value, Count, Grown, Shrunk uint64
		Nodes                       []struct {
			N    string
			V, G uint64
		}
	}
	Command string
}

// value is what the widest node of a name has.
func (a *flameAnswer) value(name string) (most uint64) {
	for _, n := range a.Picture.Nodes {
		if n.N == name {
			most = max(most, n.V)
		}
	}
	return most
}

func reportedAs(t *testing.T, args ...string) *report.Report {
	t.Helper()
	out, complaints, code := memtraceSays(t, append([]string{"report", "--format", "json"}, args...)...)
	r := new(report.Report)
	if err := json.Unmarshal([]byte(out), r); err != nil || code != 0 {
		t.Fatalf("%v: %d, %v: %s", args, code, err, complaints)
	}
	return r
}

func queriedAs(t *testing.T, args ...string) *query.Result {
	t.Helper()
	out, complaints, code := memtraceSays(t, append([]string{"query", "--format", "json"}, args...)...)
	r := new(query.Result)
	if err := json.Unmarshal([]byte(out), r); err != nil || code != 0 {
		t.Fatalf("%v: %d, %v: %s", args, code, err, complaints)
	}
	return r
}

// TestWebAnswersAsTheCommandsDo compares what the page is sent with report's and query's JSON, and with what the
// recorded program did: see queriedFile.
func TestWebAnswersAsTheCommandsDo(t *testing.T) {
	t.Parallel()
	file := queriedFile(t)
	p := showPage(t, file)

	var sites tableAnswer
	p.ask(&sites, "table", "at", "55000000")
	want := reportedAs(t, file+"@55ms") // every tenth line, and the last one, which is freed 10 µs later
	if len(sites.Rows) != len(want.Sites) || sites.cell(0, "live_bytes") != 7*64 || sites.cell(0, "live_bytes") != float64(want.Sites[0].LiveBytes) || sites.cell(0, "alloc_count") != 56 {
		t.Errorf("%+v\n%+v", sites, want.Sites)
	}
	for _, by := range []string{"thread", "lifetime", "ended_by", "function"} {
		var got tableAnswer
		p.ask(&got, "table", "by", by, "filter", "size < 6000", "from", "50000000", "to", "150000000")
		asked := queriedAs(t, file, "(size < 6000) && born >= 50ms", "--from", "50ms", "--to", "150ms", "--by", by)
		compareGroups(t, by, &got, asked)
	}

	var picture flameAnswer
	p.ask(&picture, "flame", "kind", "live")
	if whole := reportedAs(t, file); picture.Picture.Value != whole.Processes[0].Heap.LiveBytes || picture.value("grow") != 10_000 || picture.value("main") != 10*64+10_000 {
		t.Errorf("%+v, want %d live bytes", picture, whole.Processes[0].Heap.LiveBytes)
	}
	p.ask(&picture, "flame", "kind", "allocated", "from", "50000000", "to", "100500000")
	if asked := queriedAs(t, file, "born >= 50ms", "--from", "50ms", "--to", "100500us"); picture.Picture.Value != asked.Total.Bytes || asked.Total.Bytes != 50*64+5000 {
		t.Errorf("%d bytes allocated in the span, query says %d", picture.Picture.Value, asked.Total.Bytes)
	}
	p.ask(&picture, "flame", "base", "0", "base_at", "55000000")
	if picture.Picture.Grown != 3*64+10_000 || picture.Picture.Shrunk != 0 {
		t.Errorf("it grew by %d and shrank by %d", picture.Picture.Grown, picture.Picture.Shrunk)
	}
	p.ask(&picture, "flame", "hide", "grow", "inverted", "1")
	if picture.Picture.Value != 10*64 {
		t.Errorf("%d without grow", picture.Picture.Value)
	}
	checkTimeline(t, p, file)
	checkCSV(t, p)
}

func compareGroups(t *testing.T, by string, got *tableAnswer, want *query.Result) {
	t.Helper()
	if len(got.Rows) != len(want.Groups) || len(got.Rows) == 0 {
		t.Errorf("by %s: %d rows, query has %d: %+v", by, len(got.Rows), len(want.Groups), got)
		return
	}
	for _, g := range want.Groups {
		i := slices.IndexFunc(got.Rows, func(r struct {
			Key   string
			Texts []string
			Cells []float64
		}) bool {
			return r.Key == strings.ReplaceAll(g.Key, "\x1b", `\x1b`)
		})
		if i < 0 || got.cell(i, "bytes") != float64(g.Bytes) || got.cell(i, "count") != float64(g.Count) || got.cell(i, "live_bytes") != float64(g.LiveBytes) || got.cell(i, "max_lifetime_ns") != float64(g.MaxLifetimeNS) {
			t.Errorf("by %s: query has %+v, the page %+v", by, g, got.Rows)
		}
	}
}

func checkTimeline(t *testing.T, p *shownPage, file string) {
	t.Helper()
	var line struct {
		Steps  []query.Step
		StepNS uint64 `json:"step_ns"`
	}
	p.ask(&line, "timeline", "steps", "20")
	if want := queriedAs(t, file, "--timeline", "10ms"); line.StepNS != 10_000_000 || !slices.Equal(line.Steps, want.Steps) {
		t.Errorf("steps of %d: %+v\n%+v", line.StepNS, line.Steps, want.Steps)
	}
}

// checkCSV looks for all rows, with the name that has an escape character in it made harmless.
func checkCSV(t *testing.T, p *shownPage) {
	t.Helper()
	code, body := p.get("/api/table.csv?file=0&by=none&filter=" + url.QueryEscape("size == 64 && live"))
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	if code != 200 || len(lines) != 11 || !strings.Contains(lines[1], `read_line\x1b[31m`) || strings.Contains(string(body), "\x1b") {
		t.Errorf("%d: %s", code, body)
	}
}

// TestWebRefusesWhatCannotBe says why, and shows where an expression is wrong.
func TestWebRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	p := showPage(t, queriedFile(t))
	for path, want := range map[string]string{
		"flame?file=7": "there is no file", "flame?file=0&kind=no": "is none of", "table?file=0&by=no": "is none of", "table?file=0&sort=no": "no column",
		"view?file=0&at=999999999999": "has no time", "view?file=0&at=-1": "has no time", "table?file=0&from=20&to=10": "ends before it begins",
		"table?file=0&filter=size+%3E+3ms": `"from":7`, "flame?file=0&filter=live&kind=peak": "whole Report alone", "flame?file=0&base=0&filter=live": "leave the filter out",
		"table?file=0&top=99999999": "no number up to", "timeline?file=0&pid=x": "no number up to", "suppression?file=0&leak=9": "no leak",
	} {
		if code, body := p.get("/api/" + path); code != 400 || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %s, want %q", path, code, body, want)
		}
	}
}

// TestWebShowsSavedReports, which are of one time.
func TestWebShowsSavedReports(t *testing.T) {
	t.Parallel()
	p := showPage(t, filepath.Join("../../analyzer/render/testdata", "service.json"))
	var view struct {
		Report report.Report
		Totals []struct {
			Kind  string
			Bytes uint64
		}
	}
	p.ask(&view, "view")
	want := reportedAs(t, filepath.Join("../../analyzer/render/testdata", "service.json"))
	sum := uint64(0)
	for _, s := range want.Sites {
		sum += s.LiveBytes
	}
	if len(view.Report.Processes) != len(want.Processes) || view.Totals[0].Bytes != sum || sum == 0 {
		t.Errorf("%d processes, %+v", len(view.Report.Processes), view.Totals)
	}
	if code, body := p.get("/api/timeline?file=0"); code != 400 || !strings.Contains(string(body), "saved Report is of one time") {
		t.Errorf("%d %s", code, body)
	}
}

// TestWebMistakes are answered with what to do.
func TestWebMistakes(t *testing.T) {
	t.Parallel()
	file := queriedFile(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "web takes recordings or Reports"},
		{[]string{"/nonexistent"}, 1, "no such file"},
		{[]string{empty}, 1, "the file is empty"},
		{[]string{"main.go"}, 1, "nor is it a recording"},
		{[]string{file, "--listen", taken.Addr().String()}, 1, "another program has this port"},
		{[]string{file, "--listen", "8080"}, 2, "it is to be HOST:PORT"},
		{slices.Repeat([]string{file}, maxWebFiles+1), 2, "up to 16 files"},
	} {
		out, complaints, code := memtraceSays(t, append([]string{"web"}, c.args...)...)
		if code != c.code || !strings.Contains(complaints, c.want) || out != "" {
			t.Errorf("%.100q: exit code %d, %q %q; want %d, %q", fmt.Sprint(c.args), code, complaints, out, c.code, c.want)
		}
	}
}
