package export

import (
	"fmt"
	"io"
	"strconv"

	"github.com/google/pprof/profile"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

// sampleTypes are the figures of a sample: Go's heap profiles have the first four,
// in this order.
var sampleTypes = []struct {
	name string
	unit string
	kind Kind
}{
	{"alloc_objects", countUnit, Allocated}, {"alloc_space", bytesUnit, Allocated},
	{"inuse_objects", countUnit, Live}, {"inuse_space", bytesUnit, Live},
	{"peak_space", bytesUnit, Peak},
	{"freed_objects", countUnit, Freed}, {"freed_space", bytesUnit, Freed},
	{"temporary_objects", countUnit, Temporary},
	{"leaked_objects", countUnit, Leaked}, {"leaked_space", bytesUnit, Leaked},
	{"growing_objects", countUnit, Growing}, {"growing_space", bytesUnit, Growing},
	{"resident_space", bytesUnit, Resident}, {"untouched_space", bytesUnit, Untouched},
	{"swapped_space", bytesUnit, Swapped}, {"page_faults", countUnit, Faults},
	{"mapped_regions", countUnit, Mapped}, {"mapped_space", bytesUnit, Mapped},
}

// defaultTypes are the sample types to show for a kind.
func defaultType(k Kind) string {
	for _, t := range sampleTypes {
		if t.kind == k && (t.unit == bytesUnit || k.counts()) {
			return t.name
		}
	}
	return "inuse_space"
}

// writePprof writes a profile with all kinds, a sample for each stack.
func writePprof(w io.Writer, r *report.Report, opt Options) error {
	p, stacks := newProfile(r, opt), stacksOf(r)
	p.mainFirst(stacks)
	for i := range stacks {
		p.addStack(&stacks[i])
	}
	p.finishMappings()
	if err := p.out.CheckValid(); err != nil {
		return fmt.Errorf("make a profile: %w", err)
	}
	return p.out.Write(w)
}

// mainFirst makes the program's own file the first mapping, after which readers name
// the profile.
func (p *profiler) mainFirst(stacks []stack) {
	for i := range stacks {
		for _, f := range stacks[i].frames {
			if s := &stacks[i]; s.process != nil && f.Module == s.process.Exe {
				p.mapping(f)
				return
			}
		}
	}
}

// profiler makes a profile's tables.
type profiler struct {
	out       *profile.Profile
	mappings  map[[2]string]*profile.Mapping // by path and build ID
	functions map[[3]string]*profile.Function
	locations map[string]*profile.Location
}

func newProfile(r *report.Report, opt Options) *profiler {
	p := &profiler{
		out: &profile.Profile{
			DefaultSampleType: defaultType(opt.kind()), DurationNanos: signed(r.WindowNS),
			PeriodType: &profile.ValueType{Type: "space", Unit: bytesUnit}, Period: 1,
			Comments: []string{"memtrace " + render.ValidText(opt.Version)},
		},
		mappings: make(map[[2]string]*profile.Mapping), functions: make(map[[3]string]*profile.Function),
		locations: make(map[string]*profile.Location),
	}
	if !opt.Made.IsZero() {
		p.out.TimeNanos = opt.Made.UnixNano()
	}
	if r.Sampling != nil && len(r.Sampling.Intervals) > 0 {
		p.out.Period = max(signed(r.Sampling.Intervals[0]), 1)
	}
	p.out.Comments = append(p.out.Comments, notes(r)...)
	for _, t := range sampleTypes {
		p.out.SampleType = append(p.out.SampleType, &profile.ValueType{Type: t.name, Unit: t.unit})
	}
	return p
}

func (p *profiler) addStack(s *stack) {
	sample := &profile.Sample{Value: make([]int64, len(sampleTypes))}
	some := false
	for i, t := range sampleTypes {
		v := s.weights[t.kind.index()].bytes
		if t.unit == countUnit {
			v = s.weights[t.kind.index()].count
		}
		sample.Value[i] = signed(v)
		some = some || v != 0
	}
	if !some {
		return
	}
	sample.Label = map[string][]string{"pid": {strconv.Itoa(s.pid)}, "comm": {s.comm()}}
	for frames := s.frames; len(frames) > 0; {
		n := 1 // inlined frames stand before the one that they are in
		for n < len(frames) && frames[n-1].Inlined && frames[n].Offset == frames[n-1].Offset && frames[n].Module == frames[n-1].Module {
			n++
		}
		sample.Location = append(sample.Location, p.location(frames[:n]))
		frames = frames[n:]
	}
	if len(s.frames) == 0 {
		name := s.path(true)[1].label
		sample.Location = append(sample.Location, p.location([]*report.Frame{{Function: name}}))
	}
	p.out.Sample = append(p.out.Sample, sample)
}

// location is an instruction with the functions that are there, the innermost first.
func (p *profiler) location(frames []*report.Frame) *profile.Location {
	m := p.mapping(frames[0])
	key := strconv.FormatUint(frames[0].Offset, 16)
	if m != nil {
		key += "@" + strconv.FormatUint(m.ID, 10)
	}
	for _, f := range frames {
		key += "\x00" + f.Function + "\x00" + f.File + "\x00" + strconv.Itoa(f.Line)
	}
	if known := p.locations[key]; known != nil {
		return known
	}
	l := &profile.Location{ID: uint64(len(p.out.Location) + 1), Mapping: m, Address: frames[0].Offset}
	for _, f := range frames {
		l.Line = append(l.Line, profile.Line{Function: p.function(f), Line: int64(f.Line)})
	}
	p.locations[key] = l
	p.out.Location = append(p.out.Location, l)
	return l
}

func (p *profiler) function(f *report.Frame) *profile.Function {
	name, system := label(f), clip(f.Mangled)
	if system == "" {
		system = name
	}
	key := [3]string{name, system, clip(f.File)}
	if known := p.functions[key]; known != nil {
		return known
	}
	fn := &profile.Function{ID: uint64(len(p.out.Function) + 1), Name: name, SystemName: system, Filename: key[2]}
	p.functions[key] = fn
	p.out.Function = append(p.out.Function, fn)
	return fn
}

func (p *profiler) mapping(f *report.Frame) *profile.Mapping {
	if f.Module == "" {
		return nil
	}
	key := [2]string{clip(f.Module), clip(f.BuildID)}
	m := p.mappings[key]
	if m == nil {
		m = &profile.Mapping{
			ID: uint64(len(p.out.Mapping) + 1), File: key[0], BuildID: key[1],
			HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true,
		}
		p.mappings[key] = m
		p.out.Mapping = append(p.out.Mapping, m)
	}
	m.Limit = max(m.Limit, add(f.Offset, 1)) // until finishMappings: the size
	return m
}

// finishMappings gives each file addresses of its own. A Report has addresses within
// files, and no process's: files are laid out one after the other, so that an address is
// its file's start and the address within.
func (p *profiler) finishMappings() {
	const page, most = 4096, 1 << 40
	next := uint64(1 << 20)
	for _, m := range p.out.Mapping {
		size := (min(m.Limit, most) + page - 1) / page * page
		m.Start, m.Limit = next, next+size
		next += size + 1<<20
	}
	for _, l := range p.out.Location {
		if l.Mapping != nil {
			l.Address = l.Mapping.Start + min(l.Address, l.Mapping.Limit-l.Mapping.Start-1)
		}
	}
}
