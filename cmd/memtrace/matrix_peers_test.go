//go:build integration && services

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/procfs/proctest"
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

// mappings are those of the whole process.
func (r *matrixRow) mappings() (n uint64) {
	for _, c := range r.Components {
		n += c.Mappings
	}
	return n
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

// TestMatrixRowsAddUp: of each process of the machine the components are all of
// it, whatever it does meanwhile.
func TestMatrixRowsAddUp(t *testing.T) {
	checked := 0
	for _, row := range liveMatrix(t) {
		if row.RSS == nil { // it has ended, or is the kernel's
			continue
		}
		var rss, uss, pss uint64
		for _, c := range row.Components {
			rss, uss, pss = rss+c.RSS, uss+c.USS, pss+c.PSS
		}
		if rss != *row.RSS || uss != *row.USS || pss > *row.PSS || *row.PSS > *row.RSS {
			t.Errorf("process %d (%s): %+v; its components add up to rss, uss, pss %d, %d, %d", row.PID, row.Comm, row, rss, uss, pss)
		}
		checked++
	}
	if checked < 3 {
		t.Errorf("only %d processes were read", checked)
	}
}

// sums are figures of a process in bytes, PSS as the sum of its mappings', which
// the kernel rounds down to KiB each.
type sums struct{ rss, uss, swap, pss uint64 }

// differ says how a row differs from sums that another program made.
func (r *matrixRow) differ(peer sums) string {
	if *r.RSS != peer.rss || *r.USS != peer.uss || *r.Swap != peer.swap || *r.PSS < peer.pss || *r.PSS > peer.pss+r.mappings()<<10 {
		return fmt.Sprintf("process %d: rss %d, uss %d, swap %d, pss %d in %d mappings; the peer says %+v",
			r.PID, *r.RSS, *r.USS, *r.Swap, *r.PSS, r.mappings(), peer)
	}
	return ""
}

// smapsSums sums smaps by awk.
func smapsSums(t *testing.T, pid int) (s sums) {
	t.Helper()
	const script = `/^Rss:/ {r+=$2} /^Private_(Clean|Dirty):/ {u+=$2} /^Swap:/ {s+=$2} /^Pss:/ {p+=$2} END {print r*1024, u*1024, s*1024, p*1024}`
	out, err := exec.Command("awk", script, fmt.Sprintf("/proc/%d/smaps", pid)).Output()
	if err == nil {
		_, err = fmt.Sscan(string(out), &s.rss, &s.uss, &s.swap, &s.pss)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// smemSums are what smem says of a process.
func smemSums(t *testing.T, k knownMemory) sums {
	t.Helper()
	out, err := exec.Command(need(t, "smem"), "-H", "-P", k.Name, "-c", "pid uss pss rss swap").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(fmt.Sprintf(`(?m)^ *%d +(\d+) +(\d+) +(\d+) +(\d+)`, k.PID)).FindSubmatch(out)
	if found == nil {
		t.Fatalf("smem doesn't know process %d: %s", k.PID, out)
	}
	column := func(i int) uint64 { return parseNumber(t, string(found[i])) << 10 }
	return sums{uss: column(1), pss: column(2), rss: column(3), swap: column(4)}
}

// TestMatrixAgreesWithPeers holds the rows of two processes, which share their
// files with each other and with nobody else, against awk, smem and pmap -XX.
func TestMatrixAgreesWithPeers(t *testing.T) {
	program := copyKnownMemory(t)
	k := program.start(t)
	program.start(t)
	for name, reference := range map[string]func() sums{
		"awk":  func() sums { return smapsSums(t, k.PID) },
		"smem": func() sums { return smemSums(t, k) },
		"pmap": func() sums {
			totals := pmapTotals(t, k.PID)
			return sums{totals["Rss"], totals["Private_Clean"] + totals["Private_Dirty"], totals["Swap"], totals["Pss"]}
		},
	} {
		t.Run(name, func(t *testing.T) {
			peer, row := proctest.Settled(t, reference, func() matrixRow { return liveMatrix(t, "-p", strconv.Itoa(k.PID))[0] })
			if differs := row.differ(peer); differs != "" {
				t.Error(differs)
			}
			if *row.USS < uint64(k.Private) || *row.PSS < *row.USS+32<<10 || *row.RSS < *row.PSS+32<<10 {
				t.Errorf("two share little of their files: %d, %d, %d", *row.USS, *row.PSS, *row.RSS)
			}
		})
	}
}

func parseNumber(t *testing.T, word string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// pmapTotals is the last line of pmap -XX in bytes: the sums of the columns from
// Size on, followed by a unit.
func pmapTotals(t *testing.T, pid int) map[string]uint64 {
	t.Helper()
	out, err := exec.Command(need(t, "pmap"), "-XX", strconv.Itoa(pid)).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	names, totals := strings.Fields(lines[1]), strings.Fields(lines[len(lines)-1])
	names = names[slices.Index(names, "Size"):]
	if len(totals) < 5 || totals[len(totals)-1] != "KB" {
		t.Fatalf("pmap -XX ends in %q", totals)
	}
	sums := make(map[string]uint64)
	for i, word := range totals[:len(totals)-1] {
		sums[names[i]] = parseNumber(t, word) << 10
	}
	return sums
}

// framesOracle reads the frames of a process, and their counts, by another
// program: pages, pages mapped once, the sum of shares, and beside that sum the
// pages of the vDSO, whose shares change with each process that comes and goes.
const framesOracle = `
import struct, sys
rss = uss = vdso = 0
pss = 0.0
pm, kc, kf = (open(f, "rb") for f in ("/proc/%s/pagemap" % sys.argv[1], "/proc/kpagecount", "/proc/kpageflags"))
for line in open("/proc/%s/smaps" % sys.argv[1]):
    head = line.split()[0]
    if "-" in head and not head.endswith(":"):
        start, end = (int(x, 16) for x in head.split("-"))
        everyones = line.endswith("[vdso]\n")
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
        rss, uss = rss + 1, uss + (count <= 1)
        if everyones:
            vdso += 1
        else:
            pss += 1 / max(count, 1)
print(rss, uss, vdso, pss)
`

// framesOf are the figures of framesOracle.
type framesOf struct {
	rss, uss, vdso uint64
	pss            float64
}

func framesByPython(t *testing.T, pid int) (f framesOf) {
	t.Helper()
	said, err := exec.Command(need(t, "python3"), "-c", framesOracle, strconv.Itoa(pid)).Output()
	if err == nil {
		_, err = fmt.Sscan(string(said), &f.rss, &f.uss, &f.vdso, &f.pss)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// pagesReport is what the tests look at in a Report of pages.
type pagesReport struct {
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

func matrixPages(t *testing.T, pid int) (doc pagesReport) {
	t.Helper()
	cmd := memtraceCommand(t, "matrix", "--stall-budget", "0", "--report", "pages", "--format", "json", "-p", strconv.Itoa(pid))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &doc); err != nil || len(doc.Pages.Processes) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	return doc
}

// TestMatrixPages holds the pages of a process that shares its files with one
// other against an independent reader of pagemap and kpagecount, and their
// number against its RSS.
func TestMatrixPages(t *testing.T) {
	program := copyKnownMemory(t)
	k := program.start(t)
	program.start(t)
	oracle, doc := proctest.Settled(t, func() framesOf { return framesByPython(t, k.PID) }, func() pagesReport { return matrixPages(t, k.PID) })
	got, row := doc.Pages.Processes[0], doc.Processes[0]
	if got.RSS != oracle.rss || got.USS != oracle.uss || got.RSS*4096 != *row.RSS || got.USS*4096 != *row.USS || doc.Pages.Distinct != oracle.rss {
		t.Errorf("%+v; the oracle says %+v, the RSS is %d, the USS %d", doc.Pages, oracle, *row.RSS, *row.USS)
	}
	// This test has the vDSO, too: a third of it at most is the process's.
	if rest := got.PSS - oracle.pss; rest < -1e-6 || rest > float64(oracle.vdso)/3+1e-6 {
		t.Errorf("PSS is %f pages, the oracle says %f beside %d of the vDSO", got.PSS, oracle.pss, oracle.vdso)
	}
	if math.Abs(got.PSS*4096-float64(*row.PSS)) > float64(row.mappings())*1024 {
		t.Errorf("PSS is %f pages; of the mappings it is %d bytes", got.PSS, *row.PSS)
	}
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
	cat, err := os.ReadFile(need(t, "cat"))
	if err == nil {
		err = proctest.WriteProgram(program, cat)
	}
	if err != nil {
		t.Fatal(err)
	}
	// Two of a size: a tile that is small beside another may have no room.
	victim, other := spawn(t, exec.Command(program)), spawn(t, exec.Command(need(t, "cat")))
	for _, p := range []*spawned{victim, other} {
		fmt.Fprintln(p.stdin, "up") // what it echoes: it has all of its pages
		p.lineWith("up")
	}
	page, err := memtraceCommand(t, "matrix", "--stall-budget", "0", "--format", "html", "-p",
		fmt.Sprint(victim.pid(), ",", other.pid())).Output()
	if err != nil {
		t.Fatal(err)
	}
	checkPage(t, renderedDOM(t, dir, page), victim.pid())
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
	browser := browser(ctx, t, dir, "--dump-dom", "file://"+file)
	var errors bytes.Buffer
	browser.Stderr = &errors
	dom, err := browser.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &errors)
	}
	return string(dom)
}

// browser is Chromium without a window; dir is for its profile.
func browser(ctx context.Context, t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(ctx, need(t, "chromium"), append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--disable-background-networking", "--no-first-run", "--user-data-dir=" + filepath.Join(dir, "profile"),
		"--window-size=1200,900",
	}, args...)...)
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
