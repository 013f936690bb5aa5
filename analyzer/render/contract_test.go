package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/memtrace/memtrace/analyzer/report"
)

// contract are the fields that other programs rely on, as the schema
// memtrace.report/1 names them: path of the object, then its fields.
var contract = map[string]string{
	"":                         "schema final window_ns events processes sites regions leaks",
	"events":                   "alloc free realloc mmap munmap mremap fault_minor fault_major lost unmatched_free failed",
	"processes[]":              "id pid comm exe usage heap rss_by anon_mmap_by",
	"processes[].usage":        "rss pss uss swap anon file shmem",
	"processes[].heap":         "live_bytes live_count peak_bytes peak_at_ns alloc_bytes alloc_count free_count temporary_count resident_bytes untouched_bytes swapped_bytes",
	"processes[].anon_mmap_by": "traced untraced",
	"processes[].rss_by":       "heap_live heap_overhead anon_mmap file stack shmem other",
	"sites[]":                  "id process pid function function_frame stack live_bytes live_count alloc_bytes alloc_count free_count temporary_count peak_live_bytes resident_bytes faults oldest_ns size_histogram",
	"sites[].stack[]":          "function file line module build_id offset inlined",
	"regions[]":                "id process pid function stack kind allocator live_bytes live_count mapped_bytes mapped_count unmapped_bytes inherited_bytes peak_live_bytes resident_bytes swapped_bytes growth_bytes",
	"leaks[]":                  "site process pid kind bytes count confidence why",
}

// objects yields every JSON object under v with its path.
func objects(path string, v any, yield func(path string, object map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		yield(path, v)
		for key, child := range v {
			objects(strings.TrimPrefix(path+"."+key, "."), child, yield)
		}
	case []any:
		for _, child := range v {
			objects(path+"[]", child, yield)
		}
	}
}

func TestJSONContract(t *testing.T) {
	for name, r := range fixtures() {
		var out bytes.Buffer
		if err := Write(&out, r, Options{Format: JSON, Compact: true}); err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(out.Bytes(), []byte("\n")); n != 1 {
			t.Errorf("%s: compact JSON has %d newlines, want 1 at its end", name, n)
		}
		if !utf8.Valid(out.Bytes()) || bytes.Contains(out.Bytes(), []byte("null")) {
			t.Errorf("%s: JSON is not UTF-8 or holds a null: %s", name, out.Bytes())
		}
		var doc map[string]any
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if doc["schema"] != "memtrace.report/1" {
			t.Errorf("%s: schema is %v", name, doc["schema"])
		}
		objects("", doc, func(path string, object map[string]any) {
			for _, field := range strings.Fields(contract[path]) {
				if _, ok := object[field]; !ok {
					t.Errorf("%s: %s lacks the field %q", name, path, field)
				}
			}
		})
	}
}

// TestJSONContractReached fails if a path of the contract names no object of
// the fixtures, which would leave its fields unchecked.
func TestJSONContractReached(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, serviceReport(), Options{Format: JSON}); err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	reached := map[string]bool{}
	objects("", doc, func(path string, _ map[string]any) { reached[path] = true })
	for path, fields := range contract {
		if fields != "" && !reached[path] {
			t.Errorf("no object at %q", path)
		}
	}
}

func TestJSONReplacesWhatItCannotExpress(t *testing.T) {
	r := &report.Report{Leaks: []report.Leak{{Kind: "old\xff", Confidence: math.NaN()}}}
	var out bytes.Buffer
	if err := Write(&out, r, Options{Format: JSON}); err != nil {
		t.Fatal(err)
	}
	var back report.Report
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if leak := back.Leaks[0]; leak.Kind != "old\ufffd" || leak.Confidence != 0 {
		t.Errorf("got %+v", leak)
	}
	if r.Processes != nil || !math.IsNaN(r.Leaks[0].Confidence) {
		t.Error("Write changed its argument")
	}
}

func TestJSONHasNoCharacterThatATerminalObeys(t *testing.T) {
	r := hostileReport()
	r.Warnings = []string{"\u009b2J \u202e \U000e0001 \x7f größe"}
	var out bytes.Buffer
	if err := Write(&out, r, Options{Format: JSON}); err != nil {
		t.Fatal(err)
	}
	for _, c := range out.String() {
		if c != '\n' && !unicode.IsPrint(c) {
			t.Errorf("unprintable %U", c)
		}
	}
	var back report.Report
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Warnings[0] != r.Warnings[0] {
		t.Errorf("got %q, %v", back.Warnings, err)
	}
}

func TestUnknownFormat(t *testing.T) {
	err := Write(&bytes.Buffer{}, serviceReport(), Options{Format: "xml"})
	if err == nil || !strings.Contains(err.Error(), `"xml"`) {
		t.Errorf("got %v", err)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errBroken }

var errBroken = errors.New("broken pipe")

func TestWriteErrorIsReturned(t *testing.T) {
	for _, format := range Formats() {
		if err := Write(brokenPipe{}, serviceReport(), Options{Format: Format(format)}); !errors.Is(err, errBroken) {
			t.Errorf("%s: got %v", format, err)
		}
	}
}
