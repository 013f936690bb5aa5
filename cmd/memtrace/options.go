package main

import (
	"slices"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/export"
	"github.com/memtrace/memtrace/analyzer/gate"
	"github.com/memtrace/memtrace/analyzer/matrix"
	"github.com/memtrace/memtrace/analyzer/query"
	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/cmdline"
	"github.com/memtrace/memtrace/tracer/event"
)

// The groups of options, in the order in which help shows them.
const (
	groupWhat     = "What to trace"
	groupAgent    = "The agent"
	groupRecord   = "Recording"
	groupTime     = "How long"
	groupInstant  = "Which time"
	groupShow     = "What to show"
	groupLeaks    = "Leaks and CI"
	groupCost     = "Cost"
	groupSymbols  = "Symbols"
	groupAdvanced = "Advanced"
)

var optionGroups = []string{groupWhat, groupAgent, groupRecord, groupTime, groupInstant, groupShow, groupLeaks, groupCost, groupSymbols, groupAdvanced}

// optionDetails are what help, manual pages and completion need of each flag
// beside its text: its group, what its value is called, and which values there
// are. A flag that is something else in one command has an entry "COMMAND NAME".
// TestEveryOptionIsDescribed fails where a flag has none.
func optionDetails() map[string]cmdline.Detail {
	all := map[string]cmdline.Detail{"help": {Group: groupAdvanced}, "version": {Group: groupAdvanced}}
	for _, part := range []map[string]cmdline.Detail{
		whatDetails(), recordDetails(), timeDetails(), showDetails(), leakDetails(), costDetails(), symbolDetails(), advancedDetails(), liveDetails(),
		agentDetails(),
	} {
		for name, detail := range part {
			all[name] = detail
		}
	}
	return all
}

func whatDetails() map[string]cmdline.Detail {
	return map[string]cmdline.Detail{
		"pid":               {Group: groupWhat, Metavar: "PID", Values: cmdline.Processes},
		"comm":              {Group: groupWhat, Metavar: "NAME", Values: cmdline.Names},
		"cgroup":            {Group: groupWhat, Metavar: "PATH", Values: cmdline.Groups},
		"container":         {Group: groupWhat, Metavar: "ID|NAME", Values: cmdline.Containers},
		"all":               {Group: groupWhat},
		"risk-interpreters": {Group: groupWhat},
		"follow":            {Group: groupWhat},
		"alloc-fn":          {Group: groupWhat, Metavar: "SPEC"},
		"free-fn":           {Group: groupWhat, Metavar: "SPEC"},
		"input":             {Group: groupWhat, Metavar: "FILE", Values: cmdline.Files},
		"pages":             {Group: groupWhat},
	}
}

func agentDetails() map[string]cmdline.Detail {
	return map[string]cmdline.Detail{
		"serve config":  {Group: groupAgent, Metavar: "FILE", Values: cmdline.Files},
		"serve listen":  {Group: groupAgent, Metavar: "ADDRESS:PORT"},
		"doctor serve":  {Group: groupAgent},
		"doctor config": {Group: groupAgent, Metavar: "FILE", Values: cmdline.Files},
		"check-config":  {Group: groupAgent},
		"config check":  {Group: groupShow, Metavar: "FILE", Values: cmdline.Files},
		"config format": {Group: groupShow, Metavar: "FORMAT", Words: []string{string(render.Text), string(render.JSON)}},
		"serve data":    {Group: groupAgent, Metavar: "DIR", Values: cmdline.Files},
	}
}

func timeDetails() map[string]cmdline.Detail {
	return map[string]cmdline.Detail{
		"duration":   {Group: groupTime, Metavar: "TIME"},
		"interval":   {Group: groupTime, Metavar: "TIME"},
		"time-limit": {Group: groupTime, Metavar: "TIME"},
		"watch":      {Group: groupTime, Metavar: "CONDITION"},
		"hysteresis": {Group: groupTime, Metavar: "SHARE"},
		"at":         {Group: groupInstant, Metavar: "TIME"},
		"from":       {Group: groupInstant, Metavar: "TIME"},
		"to":         {Group: groupInstant, Metavar: "TIME"},
	}
}

func recordDetails() map[string]cmdline.Detail {
	return map[string]cmdline.Detail{
		"output":          {Group: groupRecord, Metavar: "FILE", Values: cmdline.Files},
		"snapshot output": {Group: groupWhat, Metavar: "FILE", Values: cmdline.Files},
		"export output":   {Group: groupShow, Metavar: "FILE", Values: cmdline.Files},
		"max-size":        {Group: groupRecord, Metavar: "SIZE"},
		"keep":            {Group: groupRecord, Metavar: "TIME"},
		"flight":          {Group: groupRecord, Metavar: "TIME"},
		"freeze-on":       {Group: groupRecord, Metavar: "CONDITION"},
		"compression":     {Group: groupRecord, Metavar: "LEVEL", Words: recording.Levels()},
	}
}

func showDetails() map[string]cmdline.Detail {
	return map[string]cmdline.Detail{
		"top":              {Group: groupShow, Metavar: "N"},
		"sort":             {Group: groupShow, Metavar: "KEY", Words: analyzer.SortKeys()},
		"wrapper":          {Group: groupShow, Metavar: "NAME"},
		"native":           {Group: groupShow},
		"format":           {Group: groupShow, Metavar: "FORMAT", Words: []string{string(render.Text), string(render.JSON), string(render.CSV)}},
		"quiet":            {Group: groupShow},
		"events":           {Group: groupShow},
		"stacks":           {Group: groupShow},
		"kind":             {Group: groupShow, Metavar: "KIND", Words: event.Kinds()},
		"min-size":         {Group: groupShow, Metavar: "BYTES"},
		"function":         {Group: groupShow, Metavar: "TEXT"},
		"report":           {Group: groupShow, Metavar: "FILE", Values: cmdline.Files},
		"verbose":          {Group: groupShow},
		"no-contents":      {Group: groupShow},
		"no-command-lines": {Group: groupShow},
		"frames":           {Group: groupShow, Metavar: "N"},
		"filter":           {Group: groupShow, Metavar: "TEXT"},
		"once":             {Group: groupShow},
		"exec":             {Group: groupShow, Metavar: "COMMAND"},
		"threshold":        {Group: groupShow, Metavar: "BYTES"},
		"columns":          {Group: groupShow, Metavar: "N"},
		"by":               {Group: groupShow, Metavar: "WHAT", Words: report.Groupings()},
		"diff by":          {Group: groupShow, Metavar: "WHAT", Words: diffGroupings()},
		"diff kind":        {Group: groupShow, Metavar: "KIND", Words: export.Kinds()},
		"matrix by":        {Group: groupShow, Metavar: "FIGURE", Words: matrix.Figures()},
		"unit":             {Group: groupShow, Metavar: "UNIT", Words: render.Units()},
		"leaks format":     {Group: groupShow, Metavar: "FORMAT", Words: render.Formats()},
		"snapshot format":  {Group: groupShow, Metavar: "FORMAT", Words: []string{string(render.Text), string(render.JSON)}},
		"matrix format":    {Group: groupShow, Metavar: "FORMAT", Words: render.MatrixFormats()},
		"diff format":      {Group: groupShow, Metavar: "FORMAT", Words: render.ComparisonFormats()},
		"report format":    {Group: groupShow, Metavar: "FORMAT", Words: reportFormats},
		"export":           {Group: groupShow, Metavar: "FORMAT=FILE", Hints: export.Formats()},
		"export format":    {Group: groupShow, Metavar: "FORMAT", Words: exportFormats()},
		"export pid":       {Group: groupShow, Metavar: "PID"},
		"export kind":      {Group: groupShow, Metavar: "KIND", Words: export.Kinds()},
		"inverted":         {Group: groupShow},
		"query by":         {Group: groupShow, Metavar: "WHAT", Words: query.Groupings()},
		"query format":     {Group: groupShow, Metavar: "FORMAT", Words: query.Formats()},
		"query sort":       {Group: groupShow, Metavar: "FIGURE", Words: query.Orders()},
		"timeline":         {Group: groupShow, Metavar: "TIME"},
		"listen":           {Group: groupShow, Metavar: "ADDRESS"},
		"open":             {Group: groupShow},
		"matrix report":    {Group: groupShow, Metavar: "TABLE", Words: render.Tables()},
	}
}

func leakDetails() map[string]cmdline.Detail {
	return map[string]cmdline.Detail{
		"leaks":            {Group: groupLeaks},
		"stop":             {Group: groupLeaks},
		"min-age":          {Group: groupLeaks, Metavar: "TIME"},
		"warmup":           {Group: groupLeaks, Metavar: "TIME"},
		"fail-on":          {Group: groupLeaks, Metavar: "CONDITIONS", Hints: conditionWords()},
		"error-exitcode":   {Group: groupLeaks, Metavar: "N"},
		"baseline":         {Group: groupLeaks, Metavar: "FILE", Values: cmdline.Files},
		"suppressions":     {Group: groupLeaks, Metavar: "FILE", Values: cmdline.Files},
		"gen-suppressions": {Group: groupLeaks, Metavar: "FILE", Values: cmdline.Files},
		"junit":            {Group: groupLeaks, Metavar: "FILE", Values: cmdline.Files},
		"sarif":            {Group: groupLeaks, Metavar: "FILE", Values: cmdline.Files},
		"summary":          {Group: groupLeaks, Metavar: "FILE", Values: cmdline.Files},
	}
}

// conditionWords are the kinds of leaks and the figures that --fail-on knows.
func conditionWords() []string { return slices.Concat(report.LeakKinds(), gate.Figures()) }

func costDetails() map[string]cmdline.Detail {
	return map[string]cmdline.Detail{
		"probes":          {Group: groupCost, Metavar: "WHICH", Words: probeChoices},
		"sample-bytes":    {Group: groupCost, Metavar: "SIZE"},
		"max-overhead":    {Group: groupCost, Metavar: "SHARE"},
		"back-pressure":   {Group: groupCost, Metavar: "SIZE"},
		"memory":          {Group: groupCost, Metavar: "SIZE"},
		"stack-depth":     {Group: groupCost, Metavar: "N"},
		"python":          {Group: groupCost},
		"risk-exceptions": {Group: groupCost},
		"stall-budget":    {Group: groupCost, Metavar: "TIME"},
	}
}

func symbolDetails() map[string]cmdline.Detail {
	return map[string]cmdline.Detail{
		"names":           {Group: groupSymbols, Metavar: "FORM", Words: nameForms},
		"debuginfod":      {Group: groupSymbols},
		"jvm-perfmap":     {Group: groupSymbols},
		"no-symbol-cache": {Group: groupSymbols},
		"unwind":          {Group: groupSymbols, Metavar: "METHOD", Words: unwinders},
	}
}

func advancedDetails() map[string]cmdline.Detail {
	return map[string]cmdline.Detail{
		"hold":   {Group: groupAdvanced},
		"attach": {Group: groupAdvanced, Metavar: "MECHANISM", Words: attachMechanisms},
		"faults": {Group: groupAdvanced, Metavar: "SOURCE", Words: faultSources},
	}
}

// Values of --probes.
const (
	probesFull   = "full"
	probesAllocs = "allocs"
	probesNone   = "none"
)

// Values of flags that the tracer checks.
var (
	unwinders        = []string{"auto", "dwarf", "fp", "none"}
	attachMechanisms = []string{"auto", "uprobe_session", "uprobe_multi", "perf_cookie", "perf"}
	faultSources     = []string{"auto", "kprobe", "fexit", "raw_tracepoint", "tracepoint", "off"}
	probeChoices     = []string{probesFull, probesAllocs, probesNone}
	nameForms        = []string{"full", "short"}
)
