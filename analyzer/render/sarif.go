package render

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// SARIF 2.1.0, errata 01: the parts of it that are written here.
// https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	Bases       map[string]sarifArtifact `json:"originalUriBaseIds,omitempty"`
	Invocations []sarifInvocation        `json:"invocations"`
	Results     []sarifResult            `json:"results"`
}

type sarifDriver struct {
	Name    string      `json:"name"`
	URI     string      `json:"informationUri"`
	Version string      `json:"version,omitempty"`
	Rules   []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Short   sarifText         `json:"shortDescription"`
	Full    sarifText         `json:"fullDescription"`
	Default map[string]string `json:"defaultConfiguration"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifInvocation struct {
	Successful    bool                `json:"executionSuccessful"`
	Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
}

type sarifNotification struct {
	Level   string    `json:"level"`
	Message sarifText `json:"message"`
}

type sarifResult struct {
	RuleID       string            `json:"ruleId"`
	RuleIndex    int               `json:"ruleIndex"`
	Level        string            `json:"level"`
	Message      sarifText         `json:"message"`
	Locations    []sarifLocation   `json:"locations"`
	Stacks       []sarifStack      `json:"stacks,omitempty"`
	Fingerprints map[string]string `json:"partialFingerprints"`
	Baseline     string            `json:"baselineState,omitempty"`
	Properties   map[string]any    `json:"properties,omitempty"`
}

type sarifLocation struct {
	Physical *sarifPhysical `json:"physicalLocation,omitempty"`
	Logical  []sarifLogical `json:"logicalLocations,omitempty"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   *sarifRegion  `json:"region,omitempty"`
}

type sarifArtifact struct {
	URI  string `json:"uri"`
	Base string `json:"uriBaseId,omitempty"`
}

type sarifRegion struct {
	StartLine int `json:"startLine"`
}

type sarifLogical struct {
	Name      string `json:"fullyQualifiedName"`
	Decorated string `json:"decoratedName,omitempty"`
	Kind      string `json:"kind"`
}

type sarifStack struct {
	Message sarifText    `json:"message"`
	Frames  []sarifFrame `json:"frames"`
}

type sarifFrame struct {
	Location sarifLocation `json:"location"`
	Module   string        `json:"module,omitempty"`
}

const (
	sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	homepage    = "https://github.com/memtrace/memtrace"
	srcRoot     = "SRCROOT"
	// maxResults is how many GitHub's code scanning shows of a run.
	maxResults = 5000

	limitRule = "limit-exceeded"
)

// writeSARIF writes r for code scanning.
func writeSARIF(w io.Writer, r *report.Report, opt Options) error {
	run := sarifRun{Results: []sarifResult{}, Invocations: []sarifInvocation{{Successful: true}}}
	run.Tool.Driver = sarifDriver{Name: "memtrace", URI: homepage, Version: opt.Version, Rules: sarifRules()}
	if opt.Root != "" {
		uri, _ := fileURI(opt.Root, "")
		run.Bases = map[string]sarifArtifact{srcRoot: {URI: strings.TrimSuffix(uri, "/") + "/"}}
	}
	if o := r.Outcome; o != nil {
		run.Invocations[0].Successful = len(o.Problems) == 0
		for _, problem := range o.Problems {
			run.Invocations[0].Notifications = append(run.Invocations[0].Notifications, sarifNotification{"error", sarifText{clean(problem)}})
		}
		for i := range o.Rules {
			if rule := &o.Rules[i]; rule.Status == report.RuleFailed && len(rule.Leaks) == 0 {
				run.Results = append(run.Results, sarifLimit(r, rule, opt))
			}
		}
	}
	sites, failed := sitesByID(r), failing(r)
	for i := range r.Leaks[:min(len(r.Leaks), maxResults)] {
		run.Results = append(run.Results, sarifLeak(r, i, sites[r.Leaks[i].Site], failed[i], opt))
	}
	out, err := EncodeJSON(sarifLog{sarifSchema, "2.1.0", []sarifRun{run}}, "  ", true)
	if err != nil {
		return fmt.Errorf("encode report as SARIF: %w", err)
	}
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// sarifRules are all rules, whether or not there are results: their IDs must
// never change.
func sarifRules() []sarifRule {
	rule := func(id, name, level, short, full string) sarifRule {
		return sarifRule{id, name, sarifText{short}, sarifText{full}, map[string]string{"level": level}}
	}
	return []sarifRule{
		rule("leak-definite", "DefiniteLeak", "error", "Memory that nothing points to.", "No pointer to the block was found in the memory of the process: nobody can use it or free it any more."),
		rule("leak-indirect", "IndirectLeak", "error", "Memory that only leaked memory points to.", "Only blocks that are leaked themselves point to the block: freeing what was lost would lead to it."),
		rule("leak-possible", "PossibleLeak", "warning", "Memory that only pointers into it lead to.", "Only pointers into the block, unaligned or tagged ones, lead to it: it is leaked unless the program finds its start by them."),
		rule("leak-growing", "GrowingMemory", "warning", "A call site whose live memory keeps rising.", "The live bytes of the call site keep rising with no plateau. It may be a cache that fills."),
		rule("leak-old", "OldMemory", "note", "Memory that outlives what its call site's blocks usually live.", "Blocks outlived what the freed blocks of their call site did, and more keep arriving."),
		rule(limitRule, "LimitExceeded", "error", "A limit on memory was exceeded.", "A figure of the process went over a limit that the job set by --fail-on."),
	}
}

func sarifRuleIndex(id string) int {
	return slices.IndexFunc(sarifRules(), func(r sarifRule) bool { return r.ID == id })
}

func sarifLeak(r *report.Report, i int, s *report.Site, failed bool, opt Options) sarifResult {
	l := &r.Leaks[i]
	out := sarifResult{RuleID: "leak-" + l.Kind, Level: "note", Fingerprints: map[string]string{"memtraceLeak/v1": l.Fingerprint}}
	switch {
	case failed:
		out.Level = "error"
	case report.IsVerdict(l.Kind) && !l.Known:
		out.Level = "warning"
	}
	if out.RuleIndex = sarifRuleIndex(out.RuleID); out.RuleIndex < 0 {
		out.RuleID, out.RuleIndex = "leak-possible", sarifRuleIndex("leak-possible") // no kind of ours
	}
	switch {
	case l.Known:
		out.Baseline = "unchanged"
	case opt.Baseline:
		out.Baseline = "new"
	}
	name := "an unknown function"
	if s != nil {
		name = clean(s.Function)
		out.Stacks = sarifStacks(r, s, opt)
	}
	out.Message.Text = clean(leakTitle(l) + ", " + r.Origin() + " in " + name + ": " + strings.Join(append([]string{l.Why}, leakFacts(l)...), "; "))
	out.Locations = []sarifLocation{sarifPlace(r, l.Process, place(s, opt.Root), opt)}
	out.Properties = map[string]any{"bytes": l.Bytes, "blocks": l.Count, "confidence": normalShare(l.Confidence), "pid": l.PID}
	if l.Pages != nil {
		out.Properties["resident_bytes"] = l.Pages.Resident
	}
	return out
}

func sarifLimit(r *report.Report, rule *report.RuleDone, opt Options) sarifResult {
	sum := sha256.Sum256([]byte("memtrace limit 1\n" + rule.Rule))
	process := 0
	if len(r.Processes) > 0 {
		process = r.Processes[0].ID
	}
	return sarifResult{RuleID: limitRule, RuleIndex: sarifRuleIndex(limitRule), Level: "error",
		Message:      sarifText{clean(rule.Rule + ": " + rule.Figure)},
		Locations:    []sarifLocation{sarifPlace(r, process, nil, opt)},
		Fingerprints: map[string]string{"memtraceLimit/v1": hex.EncodeToString(sum[:16])}}
}

// sarifPlace is a location of a frame; of the program of a process, by its ID, without one.
func sarifPlace(r *report.Report, process int, f *report.Frame, opt Options) sarifLocation {
	if f != nil && (f.File != "" || f.Module != "") {
		return sarifFrameLocation(f, opt)
	}
	exe := "."
	for i := range r.Processes {
		if p := &r.Processes[i]; p.ID == process && p.Exe != "" {
			exe = p.Exe
		}
	}
	return sarifLocation{Physical: &sarifPhysical{Artifact: artifact(exe, opt)}}
}

func artifact(file string, opt Options) sarifArtifact {
	uri, below := fileURI(file, opt.Root)
	if below && opt.Root != "" {
		return sarifArtifact{uri, srcRoot}
	}
	return sarifArtifact{URI: uri}
}

func sarifFrameLocation(f *report.Frame, opt Options) sarifLocation {
	loc := sarifLocation{Logical: []sarifLogical{{frameName(f), clean(f.Mangled), "function"}}}
	switch {
	case f.File != "":
		loc.Physical = &sarifPhysical{Artifact: artifact(f.File, opt)}
		if f.Line > 0 {
			loc.Physical.Region = &sarifRegion{f.Line}
		}
	case f.Module != "":
		loc.Physical = &sarifPhysical{Artifact: artifact(f.Module, opt)}
	}
	return loc
}

func sarifStacks(r *report.Report, s *report.Site, opt Options) []sarifStack {
	if len(s.Stack) == 0 {
		return nil
	}
	stack := sarifStack{Message: sarifText{r.Origin() + " by"}, Frames: []sarifFrame{}}
	for i := range s.Stack[:min(len(s.Stack), maxListed)] {
		f := s.Stack[i]
		stack.Frames = append(stack.Frames, sarifFrame{sarifFrameLocation(f, opt), clean(base(f.Module))})
	}
	return []sarifStack{stack}
}
