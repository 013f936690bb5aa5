package blocks

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/memtrace/memtrace/analyzer/input"
)

const (
	// firefoxVersion is the processed profile version that is written: the first with one table of stacks for all
	// threads. Newer readers upgrade it.
	firefoxVersion = 60
	geckoVersion   = 31

	// firefoxSteps are those of the counter of live bytes.
	firefoxSteps = 1000

	// afterLast is what the profile's span is longer than the recording, ns: its end is not within it.
	afterLast = 1000

	// exactInteger is what a number of JavaScript holds exactly.
	exactInteger = 1<<53 - 1
)

// writeFirefox writes a processed profile for the Firefox Profiler. Each process is a thread of it, with a table of
// all of its allocations (bytes, and the stack) and frees (as many bytes less, and no stack: where a block was freed
// is not recorded). They are balanced: the reader pairs them by their addresses, so that it can show what is retained.
//
// What is over the limit of rows is left out as a sample is taken: a block of s bytes stays with probability 1 -
// exp(-s/interval), with its free, and stands for s divided by that. Blocks of no bytes are always left out: the reader
// would take their frees for allocations.
//
// Source: docs-developer/processed-profile-format.md, src/types/profile.ts of the Firefox Profiler.
func writeFirefox(out *bufio.Writer, play Source, s *survey) (err error) {
	rows, err := newRowFile(s.options.Folder, len(s.list))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.close()) }()
	f := &firefoxProfile{
		json: jsonWriter{out: out}, survey: s, rows: rows, interval: s.sizes.interval(s.rowLimit()), counters: make([]firefoxCounters, len(s.list)),
	}
	f.course = newCourse(s, firefoxSteps, func(p *process, at, bytes uint64) { f.counters[p.number].heap.add(at, bytes) })
	if err := s.follow(play, f); err != nil {
		return err
	}
	if f.failed != nil {
		return f.failed
	}
	f.course.end(s.last)
	f.explain()
	return f.write()
}

// A firefoxProfile is what is collected for a profile.
type firefoxProfile struct {
	json     jsonWriter
	survey   *survey
	rows     *rowFile
	interval float64 // of the sample; 0: all blocks are in
	course   *course
	counters []firefoxCounters // by process.number
	failed   error

	leftOut, empty uint64 // births: not in the sample; of no bytes
}

type firefoxCounters struct{ heap, rss counterSeries }

// A counterSeries is the course of a figure.
type counterSeries struct{ times, values []uint64 }

func (c *counterSeries) add(at, value uint64) {
	c.times = append(c.times, at)
	c.values = append(c.values, value)
}

func (f *firefoxProfile) happened(b *happening) {
	f.course.happened(b)
	switch {
	case b.Size == 0:
		f.empty += birth(b)
		return
	case f.interval != 0 && !isSampled(b, f.interval):
		f.leftOut += birth(b)
		return
	}
	bytes := float64(b.weight().bytes)
	if f.interval != 0 {
		bytes /= chance(float64(b.Size), f.interval)
	}
	r := row{
		time: b.at, bytes: int64(min(math.Round(bytes), exactInteger)), addr: b.Addr & exactInteger,
		stack: int32(f.survey.stacks.sites[b.Site]), thread: b.TID,
	}
	if b.end {
		r.bytes, r.stack = -r.bytes, -1
	}
	if err := f.rows.add(f.survey.processOf(b).number, r); err != nil && f.failed == nil {
		f.failed = err
	}
}

// birth counts a block once.
func birth(b *happening) uint64 {
	if b.end {
		return 0
	}
	return 1
}

func (f *firefoxProfile) told(in input.Input, at uint64) {
	if m, ok := in.(input.Memory); ok && f.survey.byPID[m.PID] != nil {
		f.counters[f.survey.byPID[m.PID].number].rss.add(at, m.Usage.RSS)
	}
}

func (f *firefoxProfile) explain() {
	s := f.survey
	for _, p := range s.list {
		s.noteSampled(p)
	}
	if f.leftOut > 0 {
		s.note("%d blocks are left out, to stay within %d rows: of each size s those stay that a sample has, with probability 1 - exp(-s/%.0f), and stand for the others: figures are estimates",
			f.leftOut, s.rowLimit(), f.interval)
	}
	if f.empty > 0 {
		s.note("%d blocks of no bytes are left out: the Firefox Profiler cannot tell their frees", f.empty)
	}
}

func (s *survey) rowLimit() uint64 {
	if s.options.Rows != 0 {
		return s.options.Rows
	}
	return DefaultRows
}

func (f *firefoxProfile) write() error {
	j := &f.json
	t := newFirefoxTables(f.survey.stacks)
	j.begin('{')
	j.member("meta", f.meta())
	j.member("libs", t.libs)
	f.writeCounters()
	j.key("shared")
	t.write(j)
	j.key("threads")
	j.begin('[')
	for _, p := range f.survey.list {
		if err := f.writeThread(p); err != nil {
			return err
		}
	}
	j.end(']')
	j.end('}')
	return nil
}

func (f *firefoxProfile) meta() map[string]any {
	notes := []map[string]any{}
	for i, text := range f.survey.notes {
		notes = append(notes, map[string]any{"label": fmt.Sprintf("Note %d", i+1), "format": "string", "value": text})
	}
	return map[string]any{
		"version": geckoVersion, "preprocessedProfileVersion": firefoxVersion,
		"product": "memtrace", "importedFrom": "memtrace", "interval": 1, "startTime": 0, "processType": 0, "stackwalk": 1,
		"profilingStartTime": 0, "profilingEndTime": float64(f.survey.last+afterLast) / 1e6,
		"categories":   []map[string]any{{"name": "Other", "color": "grey", "subcategories": []string{"Other"}}},
		"markerSchema": []any{}, "symbolicated": true, "symbolicationNotSupported": true,
		"usesOnlyOneStackType": true, "sourceCodeIsNotOnSearchfox": true,
		"extra": []map[string]any{{"label": "memtrace " + f.survey.options.Version, "entries": notes}},
	}
}

func (f *firefoxProfile) writeCounters() {
	f.json.key("counters")
	f.json.begin('[')
	for _, p := range f.survey.list {
		c := &f.counters[p.number]
		f.writeCounter(p, "live heap", "orange", &c.heap)
		f.writeCounter(p, "RSS", "blue", &c.rss)
	}
	f.json.end(']')
}

// writeCounter writes one figure of a process, as its changes.
func (f *firefoxProfile) writeCounter(p *process, name, color string, c *counterSeries) {
	if len(c.times) == 0 {
		return
	}
	j := &f.json
	j.begin('{')
	j.member("name", name)
	j.member("category", "Memory")
	j.member("description", name+" of "+p.comm())
	j.member("pid", strconv.FormatUint(uint64(p.key.pid), 10))
	j.member("mainThreadIndex", p.number)
	j.member("display", map[string]any{
		"graphType": "line-accumulated", "unit": "bytes", "color": color, "markerSchemaLocation": nil, "sortWeight": 20, "label": name,
	})
	j.key("samples")
	j.begin('{')
	j.key("time")
	j.begin('[')
	for _, at := range c.times {
		j.milliseconds(at)
	}
	j.end(']')
	var before uint64
	j.column("count", len(c.values), false, func(i int) int64 {
		change := int64(c.values[i] - before)
		before = c.values[i]
		return change
	})
	j.member("length", len(c.times))
	j.end('}')
	j.end('}')
}

func (f *firefoxProfile) writeThread(p *process) error {
	j := &f.json
	pid := strconv.FormatUint(uint64(p.key.pid), 10)
	j.begin('{')
	for _, m := range []struct {
		name  string
		value any
	}{
		{"name", p.comm()}, {"processName", p.comm()}, {"processType", "default"}, {"isMainThread", true}, {"pid", pid}, {"tid", pid},
		{"processStartupTime", 0}, {"processShutdownTime", nil}, {"registerTime", 0}, {"unregisterTime", nil}, {"pausedRanges", []any{}},
		{"samples", map[string]any{"stack": []any{}, "time": []any{}, "weight": nil, "weightType": "samples", "length": 0}},
		{"markers", map[string]any{
			"data": []any{}, "name": []any{}, "startTime": []any{}, "endTime": []any{}, "phase": []any{}, "category": []any{}, "length": 0,
		}},
	} {
		j.member(m.name, m.value)
	}
	if f.rows.of[p.number].rows > 0 {
		j.key("nativeAllocations")
		if err := f.writeRows(p); err != nil {
			return err
		}
	}
	j.end('}')
	return nil
}

func (f *firefoxProfile) writeRows(p *process) error {
	j := &f.json
	j.begin('{')
	for _, column := range []struct {
		name  string
		write func(row)
	}{
		{"time", func(r row) { j.milliseconds(r.time) }},
		{"weight", func(r row) { j.number(r.bytes) }},
		{"memoryAddress", func(r row) { j.number(int64(r.addr)) }},
		{"threadId", func(r row) { j.number(int64(r.thread)) }},
		{"stack", func(r row) {
			if r.stack < 0 {
				j.null()
			} else {
				j.number(int64(r.stack))
			}
		}},
	} {
		j.key(column.name)
		j.begin('[')
		if err := f.rows.each(p.number, column.write); err != nil {
			return err
		}
		j.end(']')
	}
	j.member("weightType", "bytes")
	j.member("length", f.rows.of[p.number].rows)
	j.end('}')
	return nil
}
