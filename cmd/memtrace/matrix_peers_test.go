//go:build integration && services

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// matrixRow is a process in the JSON of a matrix.
type matrixRow struct {
	PID                 int
	Comm                string
	USS, PSS, RSS, Swap *uint64
	Components          []struct {
		Name, Kind    string
		USS, PSS, RSS uint64
		Mappings      uint64
	}
}

// liveMatrix runs memtrace matrix.
func liveMatrix(t *testing.T, args ...string) []matrixRow {
	t.Helper()
	cmd := memtraceCommand(t, append([]string{"matrix", "--stall-budget", "0", "--format", "json"}, args...)...)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &errors)
	}
	var doc struct{ Processes []matrixRow }
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Processes
}

// smapsSums sums smaps by awk: rss, uss, swap and pss in bytes; nil where it is gone.
func smapsSums(t *testing.T, pid int) []uint64 {
	t.Helper()
	const script = `/^Rss:/ {r+=$2} /^Private_(Clean|Dirty):/ {u+=$2} /^Swap:/ {s+=$2} /^Pss:/ {p+=$2} END {print r*1024, u*1024, s*1024, p*1024}`
	out, err := exec.Command("awk", script, fmt.Sprintf("/proc/%d/smaps", pid)).Output()
	if err != nil {
		return nil
	}
	var sums []uint64
	for _, word := range strings.Fields(string(out)) {
		sums = append(sums, parseNumber(t, word))
	}
	return sums
}

func parseNumber(t *testing.T, word string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestMatrixRowsAddUp holds each row of the live machine's matrix against an
// independent sum of smaps: for all processes whose memory was the same before
// and after.
func TestMatrixRowsAddUp(t *testing.T) {
	before := make(map[int][]uint64)
	for _, row := range liveMatrix(t) {
		before[row.PID] = smapsSums(t, row.PID)
	}
	checked := 0
	for _, row := range liveMatrix(t) {
		sums := smapsSums(t, row.PID)
		if sums == nil || row.RSS == nil || len(before[row.PID]) == 0 || !slices.Equal(sums[:3], before[row.PID][:3]) {
			continue
		}
		var rss, uss, pss uint64
		for _, c := range row.Components {
			rss, uss, pss = rss+c.RSS, uss+c.USS, pss+c.PSS
		}
		if rss != sums[0] || *row.RSS != sums[0] || uss != *row.USS || *row.Swap != sums[2] || pss > *row.PSS || *row.PSS > *row.RSS {
			t.Errorf("process %d (%s): %+v; awk says rss, uss, swap, pss %v", row.PID, row.Comm, row, sums)
		}
		checked++
	}
	if checked < 3 {
		t.Errorf("only %d processes stood still long enough", checked)
	}
}

// startPython starts a process with 64 MiB of its own, and stops it.
func startPython(t *testing.T) int {
	t.Helper()
	python := spawn(t, exec.Command(need(t, "python3"), "-c", "x = b'x' * (64 << 20); print('ready', flush=True); input()"))
	python.lineWith("ready")
	python.signal(unix.SIGSTOP)
	eventually(t, "python stops", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", python.pid()))
		return err == nil && strings.Contains(string(stat), ") T ")
	})
	return python.pid()
}

// TestMatrixAgreesWithPeers holds one row against smem and pmap -X: RSS, USS
// and swap to the byte, PSS within what the peers, which map Python's and C's
// libraries as well, take from its share.
func TestMatrixAgreesWithPeers(t *testing.T) {
	pid := startPython(t)
	row := liveMatrix(t, "-p", strconv.Itoa(pid))[0]
	out, err := exec.Command(need(t, "smem"), "-H", "-c", "pid uss pss rss swap").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(fmt.Sprintf(`(?m)^ *%d +(\d+) +(\d+) +(\d+) +(\d+)`, pid)).FindSubmatch(out)
	if found == nil {
		t.Fatalf("smem doesn't know process %d: %s", pid, out)
	}
	peer := func(i int) uint64 { return parseNumber(t, string(found[i])) << 10 }
	if *row.RSS != peer(3) || *row.Swap != peer(4) {
		t.Errorf("%+v; smem says %s", row, found[0])
	}
	// smem is a Python, too: while it runs, pages of the interpreter are shared.
	checkNear(t, "USS beside smem's", *row.USS, peer(1), *row.RSS/10)
	checkNear(t, "PSS beside smem's", *row.PSS, peer(2), *row.RSS/10)

	pmap := pmapTotals(t, pid)
	if *row.RSS != pmap["Rss"] || *row.Swap != pmap["Swap"] {
		t.Errorf("%+v; pmap says %v", row, pmap)
	}
	checkNear(t, "PSS beside pmap's", *row.PSS, pmap["Pss"], *row.RSS/100)
}

// pmapTotals is the last line of pmap -X in bytes: the sums of the columns from
// Size on, followed by a unit.
func pmapTotals(t *testing.T, pid int) map[string]uint64 {
	t.Helper()
	out, err := exec.Command(need(t, "pmap"), "-X", strconv.Itoa(pid)).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	names, totals := strings.Fields(lines[1]), strings.Fields(lines[len(lines)-1])
	names = names[slices.Index(names, "Size"):]
	if len(totals) < 5 || totals[len(totals)-1] != "KB" {
		t.Fatalf("pmap -X ends in %q", totals)
	}
	sums := make(map[string]uint64)
	for i, word := range totals[:len(totals)-1] {
		sums[names[i]] = parseNumber(t, word) << 10
	}
	return sums
}

func checkNear(t *testing.T, what string, got, want, slack uint64) {
	t.Helper()
	if got > want+slack || want > got+slack {
		t.Errorf("%s: %d, want %d, give or take %d", what, got, want, slack)
	}
}

// framesOracle reads the frames of a process, and their counts, by another
// program: pages, pages mapped once, and the sum of shares.
const framesOracle = `
import struct, sys
rss = uss = 0
pss = 0.0
pm, kc, kf = (open(f, "rb") for f in ("/proc/%s/pagemap" % sys.argv[1], "/proc/kpagecount", "/proc/kpageflags"))
for line in open("/proc/%s/smaps" % sys.argv[1]):
    head = line.split()[0]
    if "-" in head and not head.endswith(":"):
        start, end = (int(x, 16) for x in head.split("-"))
    if head != "Rss:" or line.split()[1] == "0":
        continue
    pm.seek(start // 4096 * 8)
    for (entry,) in struct.iter_unpack("Q", pm.read((end - start) // 4096 * 8)):
        if not entry >> 63:
            continue
        frame = entry & (1 << 55) - 1
        kf.seek(frame * 8)
        if struct.unpack("Q", kf.read(8))[0] >> 24 & 1: # the page of zeroes, which no RSS counts
            continue
        kc.seek(frame * 8)
        count = struct.unpack("Q", kc.read(8))[0]
        rss, uss, pss = rss + 1, uss + (count <= 1), pss + 1 / max(count, 1)
print(rss, uss, pss)
`

// TestMatrixPages holds the pages of a stopped process against an independent
// reader of pagemap and kpagecount, and their number against its RSS.
func TestMatrixPages(t *testing.T) {
	pid := startPython(t)
	cmd := memtraceCommand(t, "matrix", "--stall-budget", "0", "--report", "pages", "--format", "json", "-p", strconv.Itoa(pid))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Processes []matrixRow
		Pages     struct {
			Distinct  uint64 `json:"distinct_frames"`
			Processes []struct {
				RSS uint64  `json:"rss_pages"`
				USS uint64  `json:"uss_pages"`
				PSS float64 `json:"pss_pages"`
			}
		}
	}
	if err := json.Unmarshal(out, &doc); err != nil || len(doc.Pages.Processes) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	said, err := exec.Command(need(t, "python3"), "-c", framesOracle, strconv.Itoa(pid)).Output()
	if err != nil {
		t.Fatal(err)
	}
	var rss, uss uint64
	var pss float64
	if _, err := fmt.Sscan(string(said), &rss, &uss, &pss); err != nil {
		t.Fatal(err)
	}
	got := doc.Pages.Processes[0]
	if got.RSS != rss || got.RSS*4096 != *doc.Processes[0].RSS || doc.Pages.Distinct != rss {
		t.Errorf("%+v; the oracle says %s, the RSS is %d", doc.Pages, said, *doc.Processes[0].RSS)
	}
	// The oracle is a Python, too: while it runs, pages of the interpreter are shared.
	checkNear(t, "USS", got.USS, uss, rss/10)
	checkNear(t, "PSS", uint64(got.PSS), uint64(pss), rss/10)
	checkNear(t, "PSS beside the kernel's", uint64(got.PSS*4096), *doc.Processes[0].PSS, *doc.Processes[0].RSS/100)
}

// TestMatrixPage opens the page in a browser: it draws its map, and what
// hostile names say is text.
func TestMatrixPage(t *testing.T) {
	dir := t.TempDir()
	// The file's name becomes the process's, and its path a component's.
	hostile := filepath.Join(dir, "<img src=x onerror=document.title='owned'>")
	if err := os.Mkdir(hostile, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(hostile, "<b>x<script>")
	sleep, err := os.ReadFile(need(t, "sleep"))
	if err == nil {
		err = os.WriteFile(program, sleep, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	victim := exec.Command(program, "60")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = victim.Process.Kill(); _ = victim.Wait() }()
	eventually(t, "the program runs", func() bool {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", victim.Process.Pid))
		return err == nil && strings.HasPrefix(string(comm), "<b>x<script>")
	})
	page, err := memtraceCommand(t, "matrix", "--stall-budget", "0", "--format", "html", "-p",
		fmt.Sprint(victim.Process.Pid, ",", os.Getpid())).Output()
	if err != nil {
		t.Fatal(err)
	}
	checkPage(t, renderedDOM(t, dir, page), victim.Process.Pid)
}

// renderedDOM is what a page is in a browser after its script has run.
func renderedDOM(t *testing.T, dir string, page []byte) string {
	t.Helper()
	file := filepath.Join(dir, "matrix.html")
	if err := os.WriteFile(file, page, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	browser := exec.CommandContext(ctx, need(t, "chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--disable-background-networking", "--no-first-run", "--user-data-dir="+filepath.Join(dir, "profile"),
		"--window-size=1200,900", "--dump-dom", "file://"+file)
	var errors bytes.Buffer
	browser.Stderr = &errors
	dom, err := browser.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &errors)
	}
	return string(dom)
}

func checkPage(t *testing.T, dom string, pid int) {
	t.Helper()
	tiles := strings.Count(dom, `class="tile leaf`)
	if groups := strings.Count(dom, `class="tile group"`); groups != 2 || tiles < 4 {
		t.Errorf("the map has %d groups and %d leaves", groups, tiles)
	}
	body, _, _ := strings.Cut(dom, `<script type="application/json"`)
	for _, text := range []string{
		"<title>memtrace matrix</title>", "&lt;b&gt;x&lt;script&gt; (" + strconv.Itoa(pid) + ")", "&lt;b&gt;x&lt;script&gt;</td>",
	} {
		if !strings.Contains(body, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
	for _, text := range []string{"<img", "<b>", "<title>owned"} {
		if strings.Contains(body, text) {
			t.Errorf("the page has %q: a name became markup", text)
		}
	}
	if !strings.Contains(body, "onerror=document.title='owned'&gt;/&lt;b&gt;x&lt;script&gt;") && !strings.Contains(body, "onerror=document.title='owned'>/<b>x<script>") {
		t.Error("the component's path is nowhere in the page")
	}
}
