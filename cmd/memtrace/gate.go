//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/export"
	"github.com/memtrace/memtrace/analyzer/gate"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/suppress"
)

// job is what a CI job asks for: conditions on the last Report, and the files that
// tell others how it ended. A command that makes Reports
//
//   - adds gateFlags to its flags, and calls newJob once all flags are read
//     and open before anything is started or attached to,
//   - calls observe for each Report of a trace, and conclude for the last one
//     before it is shown,
//   - returns finish(result()), or finish of the error that kept it from that.
type job struct {
	rules       gate.Rules
	judge       *gate.Judge
	code        int // to exit with when a rule is met
	suppress    *suppress.List
	embedded    suppress.List // what programs have built in
	known       *gate.Baseline
	warmUp      time.Duration
	resultFiles []*resultFile
	exports     exports
	options     render.Options

	used     map[string]string // the flags that name files, by the file
	last     *report.Report
	problems []error
}

func gateFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "fail-on", Usage: "exit with 23 on such leaks or limits: 'definite,rss>200MiB' (memtrace help ci)"},
		&cli.IntFlag{Name: "error-exitcode", Value: exitFound, Usage: "exit code for a --fail-on condition that is met"},
		&cli.PathFlag{Name: "baseline", Usage: "do not fail on the leaks in this earlier Report (JSON)"},
		&cli.PathFlag{Name: "suppressions", Usage: "leave out the leaks that this file names, in LeakSanitizer's or Valgrind's format"},
		wholeFlag("gen-suppressions", "write suppressions in Valgrind's format; lsan:FILE for LeakSanitizer's, - for stdout"),
		&cli.PathFlag{Name: "junit", Usage: "write the result as JUnit XML"},
		&cli.PathFlag{Name: "sarif", Usage: "write the leaks as SARIF 2.1.0"},
		&cli.PathFlag{Name: "summary", Usage: "write a summary in Markdown (under GitHub Actions, to the job's summary too)"},
	}
}

// warmUpFlag is for commands that trace.
func warmUpFlag() cli.Flag {
	return &cli.DurationFlag{Name: "warmup", Usage: "growth, candidates and limits count only after this time"}
}

// newJob reads the flags. Nothing is written yet.
func newJob(c *cli.Context) (*job, error) {
	g := &job{code: c.Int("error-exitcode"), warmUp: c.Duration("warmup")}
	g.options = render.Options{Root: sourceRoot(), Version: version}
	var err error
	conditions := unlessNone(c.StringSlice("fail-on"))
	if g.rules, err = gate.ParseRules(conditions); err != nil {
		return nil, usageError("--fail-on: %v%s", err, conditionMeant(conditions))
	}
	warnOfConditions(c, g.rules)
	switch {
	case g.code < 1 || g.code > 255:
		return nil, usageError("--error-exitcode must be from 1 to 255")
	case g.warmUp < 0:
		return nil, usageError("--warmup must not be negative")
	case asksFor(c, "baseline") && len(g.rules) == 0:
		return nil, usageError("--baseline says what --fail-on is to overlook: give --fail-on, too")
	}
	if g.suppress, err = readSuppressions(c); err != nil {
		return nil, err
	}
	if len(g.rules) > 0 { // else a configuration has one for jobs that have conditions
		if g.known, err = readBaseline(c); err != nil {
			return nil, err
		}
	}
	g.options.Baseline = g.known != nil
	used := map[string]string{c.Path("report"): "report", c.Path("suppressions"): "suppressions", c.Path("baseline"): "baseline"}
	if g.resultFiles, err = resultFilesOf(c, used); err != nil {
		return nil, err
	}
	if g.exports, err = exportsOf(c, used); err != nil {
		return nil, err
	}
	g.used = used
	g.judge = gate.New(gate.Options{
		Rules: g.rules, WarmUp: g.warmUp, Known: g.known, MinGrowth: growthWindows * windowInterval, MinLooks: growthLooks,
	})
	return g, nil
}

// warnOfConditions warns where --fail-on is probably not what was meant.
func warnOfConditions(c *cli.Context, rules gate.Rules) {
	if c.IsSet("fail-on") && len(rules) == 0 { // in a script, by a variable that nobody has set
		fmt.Fprintln(os.Stderr, "memtrace: warning: --fail-on is empty: nothing fails this job")
	}
	if limit := redirected(); limit != "" && len(rules) > 0 {
		fmt.Fprintf(os.Stderr, "memtrace: warning: the output goes to a file named %s: "+
			"if that was a limit of --fail-on, write it in quotes, as in --fail-on 'leak>%[1]s'\n", limit)
	}
}

// growthWindows is how many windows growth is not told before (docs/leaks.md).
const growthWindows = 9

// growthLooks is how many values a trend takes, where each look for freed blocks gives one.
const growthLooks = 8

// sourceRoot is the directory below which source files are named relatively:
// that of the checkout.
func sourceRoot() string {
	for _, name := range []string{"GITHUB_WORKSPACE", "CI_PROJECT_DIR"} {
		if dir := os.Getenv(name); strings.HasPrefix(dir, "/") {
			return dir
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return "" // then files are named absolutely
	}
	return dir
}

// readSuppressions reads the file of --suppressions, if there is one.
func readSuppressions(c *cli.Context) (*suppress.List, error) {
	path := c.Path("suppressions")
	if path == "" {
		return nil, nil
	}
	f, err := openNamed(c, "suppressions")
	if err != nil {
		return nil, fmt.Errorf("read suppressions: %w", err)
	}
	defer f.Close()
	s, err := suppress.Parse(f)
	if err != nil {
		return nil, usageError("read suppressions from %s: %v", path, err)
	}
	return s, nil
}

func readBaseline(c *cli.Context) (*gate.Baseline, error) {
	path := c.Path("baseline")
	if path == "" {
		return nil, nil
	}
	f, err := openNamed(c, "baseline")
	if err != nil {
		return nil, fmt.Errorf("read the baseline: %w", err)
	}
	defer f.Close()
	memory, err := memoryLimit(c)
	if err != nil {
		return nil, err
	}
	r, note, err := export.Read(f, memory/2)
	if err != nil {
		return nil, usageError("read the baseline %s: %v", path, err)
	}
	if note != "" {
		fmt.Fprintf(os.Stderr, "memtrace: warning: %s: %s\n", render.Clean(path), note)
	}
	return gate.NewBaseline(r), nil
}

// wantsLeaks reports whether the memory has to be read for leaks.
func (g *job) wantsLeaks() bool {
	return g.rules.NeedScan() || len(g.rules) == 0 && len(g.resultFiles) > 0 ||
		slices.ContainsFunc(g.resultFiles, func(o *resultFile) bool { return o.style != "" })
}

// observe takes the figures of a Report.
func (g *job) observe(r *report.Report) { g.judge.Observe(r) }

// hide takes suppressed leaks out of a Report, and returns them.
func (g *job) hide(r *report.Report) []report.Leak {
	hidden := g.embedded.Apply(r)
	if g.suppress != nil {
		hidden = append(hidden, g.suppress.Apply(r)...)
	}
	return hidden
}

// conclude decides by the last Report. problems are what kept the check from
// being made; each is an error so that its exit code is known. leaks says
// whether there was to be a check for leaks at all.
func (g *job) conclude(r *report.Report, leaks bool, problems []error) {
	g.last, g.problems = r, problems
	evidence := gate.Evidence{Suppressed: g.hide(r)}
	for _, err := range problems {
		evidence.Problems = append(evidence.Problems, err.Error())
	}
	if g.suppress != nil {
		evidence.Unused = g.suppress.Unused()
		for _, name := range evidence.Unused {
			r.Warnings = append(r.Warnings, fmt.Sprintf("the suppression %q matched no leak", name))
		}
	}
	if outcome := g.judge.Decide(r, evidence); !leaks && !g.active() && len(outcome.Problems) == 0 {
		r.Outcome = nil // nobody asked
	}
}

// active reports whether any condition, or any file that tells of them, was asked for.
func (g *job) active() bool { return len(g.rules) > 0 || len(g.resultFiles) > 0 || g.suppress != nil }

// failed reports whether a rule was met.
func (g *job) failed() bool { return g.last != nil && g.last.Outcome != nil && g.last.Outcome.Failed }

// result is the error that a job ends with, nil if it passes.
func (g *job) result() error {
	if g.last == nil || g.last.Outcome == nil {
		return nil
	}
	o := g.last.Outcome
	var lines []string
	for i := range o.Rules {
		if o.Rules[i].Status == report.RuleFailed {
			lines = append(lines, fmt.Sprintf("--fail-on %s: %s", o.Rules[i].Rule, g.found(&o.Rules[i])))
		}
	}
	for _, problem := range o.Problems {
		lines = append(lines, "the check could not be made: "+problem)
	}
	switch text := errors.New(strings.Join(lines, "\n")); {
	case o.Failed:
		return &exitError{g.code, text}
	case len(o.Problems) > 0:
		return &exitError{exitCode(errors.Join(g.problems...)), text}
	}
	return nil
}

// found says what made a rule fail.
func (g *job) found(rule *report.RuleDone) string {
	if len(rule.Leaks) == 0 {
		return rule.Figure
	}
	return rule.Figure + ": " + g.last.Leaks[rule.Leaks[0]].Why
}
