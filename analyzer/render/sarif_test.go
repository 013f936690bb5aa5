package render

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/memtrace/memtrace/analyzer/report"
)

// sarifSchemaText is the schema of SARIF 2.1.0 as OASIS published it, which the
// module go-sarif keeps as a constant in its source.
func sarifSchemaText(t *testing.T) string {
	t.Helper()
	file, _ := runtime.FuncForPC(reflect.ValueOf(sarif.NewReport).Pointer()).FileLine(0)
	source, err := parser.ParseFile(token.NewFileSet(), filepath.Join(filepath.Dir(file), "schema.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	ast.Inspect(source, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			text, err = strconv.Unquote(literal.Value)
		}
		return true
	})
	if err != nil || !strings.Contains(text, "Static Analysis Results Format (SARIF) Version 2.1.0") {
		t.Fatalf("no schema: %v", err)
	}
	return text
}

// sarifError is what a SARIF file breaks of its schema, nil for a valid one.
func sarifError(t *testing.T, schema *jsonschema.Schema, text []byte) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(doc)
}

func TestSARIFIsValid(t *testing.T) {
	var definition map[string]any
	if err := json.Unmarshal([]byte(sarifSchemaText(t)), &definition); err != nil {
		t.Fatal(err)
	}
	schema := compileSchema(t, definition)
	for name, r := range jobFixtures() {
		doc := written(t, r, Options{Format: SARIF, Root: "/build/service-1.2", Version: "1.0", Baseline: name == "failed"})
		if err := sarifError(t, schema, doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// The types of another writer of SARIF know every property that is used.
		strict := json.NewDecoder(bytes.NewReader(doc))
		strict.DisallowUnknownFields()
		var log sarif.Report
		if err := strict.Decode(&log); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, result := range log.Runs[0].Results {
			rules := log.Runs[0].Tool.Driver.Rules
			if len(result.Locations) == 0 || len(result.PartialFingerprints) == 0 || *rules[result.RuleIndex].ID != *result.RuleID {
				t.Errorf("%s: %+v", name, result)
			}
		}
	}
	// The validation itself must see what is wrong.
	broken := bytes.Replace(written(t, jobFixtures()["failed"], Options{Format: SARIF}), []byte(`"level": "error"`), []byte(`"level": "dreadful"`), 1)
	if sarifError(t, schema, broken) == nil {
		t.Error("a broken file passes as valid")
	}
}

func TestSARIFNamesPlacesByTheCheckout(t *testing.T) {
	var log sarif.Report
	if err := json.Unmarshal(written(t, jobFixtures()["failed"], Options{Format: SARIF, Root: "/build/service-1.2", Baseline: true}), &log); err != nil {
		t.Fatal(err)
	}
	run := log.Runs[0]
	if got := *run.OriginalUriBaseIds["SRCROOT"].URI; got != "file:///build/service-1.2/" {
		t.Errorf("SRCROOT is %s", got)
	}
	var states []string
	for _, result := range run.Results {
		states = append(states, *result.RuleID+" "+result.Level+" "+text2(result.BaselineState))
	}
	want := []string{"limit-exceeded error ", "leak-definite error new", "leak-growing note unchanged"}
	if !reflect.DeepEqual(states, want) {
		t.Errorf("%q, want %q", states, want)
	}
	place := run.Results[1].Locations[0].PhysicalLocation
	if *place.ArtifactLocation.URI != "src/list.h" || *place.ArtifactLocation.URIBaseID != "SRCROOT" || *place.Region.StartLine != 77 {
		t.Errorf("%+v", place)
	}
	if len(run.Results[1].Stacks[0].Frames) != 4 {
		t.Errorf("%+v", run.Results[1].Stacks)
	}
	limit := run.Results[0].Locations[0].PhysicalLocation.ArtifactLocation
	if *limit.URI != "file:///usr/bin/service" || limit.URIBaseID != nil {
		t.Errorf("%+v", limit)
	}
}

// A leak without a stack lies in the program of its own process, also where another
// one had the PID before or after.
func TestSARIFPlacesALeakInItsOwnProgram(t *testing.T) {
	r := &report.Report{
		Processes: []report.Process{{ID: 1, PID: 7, Exe: "/usr/bin/first"}, {ID: 2, PID: 7, Exe: "/usr/bin/second"}},
		Sites:     []report.Site{{ID: 0, Process: 1, PID: 7, Function: "[no stack]"}},
		Leaks:     []report.Leak{{Site: 0, Process: 1, PID: 7, Kind: "definite", Bytes: 8, Count: 1, Confidence: 1}},
	}
	var log sarif.Report
	if err := json.Unmarshal(written(t, r, Options{Format: SARIF}), &log); err != nil {
		t.Fatal(err)
	}
	if place := log.Runs[0].Results[0].Locations[0].PhysicalLocation.ArtifactLocation; *place.URI != "file:///usr/bin/first" {
		t.Errorf("it lies in %s", *place.URI)
	}
}

func text2(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// jobFixtures are Reports of jobs that set conditions.
func jobFixtures() map[string]*report.Report {
	out := make(map[string]*report.Report)
	for name, r := range fixtures() {
		out[name] = r
	}
	failed := serviceReport()
	failed.Leaks = append([]report.Leak{{Site: 3, PID: 4242, Kind: "definite", Bytes: 4096, Count: 4, Confidence: 1, Why: "no pointer to it was found",
		Pages: &report.LeakPages{Resident: 4096}, OldestNS: 5_000 * ms, NewestNS: 3 * ms, Growing: true, GrowthPerSecond: 614_400}}, failed.Leaks...)
	failed.Leaks[1].Known = true
	failed.Identify()
	failed.Outcome = &report.Outcome{Failed: true, Rules: []report.RuleDone{
		{Rule: "definite", Status: report.RuleFailed, Figure: "4.00 KiB in 4 blocks of 1 leaks", Leaks: []int{0}},
		{Rule: "rss>60MiB", Status: report.RuleFailed, Figure: "64.0 MiB (process 4242 service)"},
		{Rule: "possible", Status: report.RulePassed, Figure: "none"},
	}, Known: report.LeakSum{Count: 12_288, Bytes: 12 << 20},
		Gone: []report.OldLeak{{Kind: "definite", Function: "parse", Bytes: 24, Count: 1}}}
	out["failed"] = failed
	unchecked := hostileReport()
	attack := unchecked.Warnings[0]
	unchecked.Outcome = &report.Outcome{Problems: []string{attack + "::error::|`<b>%0A"}, Rules: []report.RuleDone{
		{Rule: attack, Status: report.RuleUnknown, Figure: attack}, {Rule: attack, Status: report.RuleFailed, Figure: attack, Leaks: []int{0}}},
		Gone: []report.OldLeak{{Kind: attack, Function: attack}}}
	unchecked.Leaks = append(unchecked.Leaks, report.Leak{Site: 99, Kind: "definite", Why: attack, Fingerprint: "ff"})
	out["unchecked"] = unchecked
	many := serviceReport()
	for i := range 300 {
		many.Leaks = append(many.Leaks, report.Leak{Site: 3, Kind: "definite", Bytes: uint64(i), Count: 1, Why: strings.Repeat("why | <b>", 500)})
	}
	out["many"] = many
	return out
}

// written is a Report in a format.
func written(t *testing.T, r *report.Report, opt Options) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, r, opt); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
