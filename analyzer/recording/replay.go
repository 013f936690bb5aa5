package recording

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
)

// ErrImpossible is the error of a recording whose inputs no trace could have given.
var ErrImpossible = errors.New("the recording tells of what can't have been")

// End is the instant after all that a recording has.
const End = math.MaxUint64

// Rooms are what an analyzer of a recording may take, in bytes; 0: as much as the trace's.
type Rooms struct{ Sites, Blocks uint64 }

// ReportAt is the Report that the trace would have ended with at an instant, ns of CLOCK_MONOTONIC, with all sites
// and names. It plays the recording from its beginning to there, or from the last of Savepoints before. What the recording
// lacks is among the Report's warnings, and in missing.
func (r *Reader) ReportAt(at uint64, rooms Rooms, opt analyzer.ReportOptions) (out *report.Report, missing []string, err error) {
	c, err := r.header.Config.Analyzer(rooms.Sites, rooms.Blocks)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrImpossible, err)
	}
	a := analyzer.New(c)
	defer a.Close()
	p := player{reader: r, analyzer: a, until: at, since: at}
	if err := p.play(); err != nil {
		return nil, nil, err
	}
	out = p.report(opt)
	return out, p.warnings(), p.err
}

// Play gives all inputs until an instant to an analyzer, which is to be made by the recording's Config, and then the
// names that come later. told, if not nil, is told of each input but those names, and of what the recording lacks as
// losses, after the analyzer has taken it.
// missing says in sentences what the recording lacks until there, and how it ended.
func (r *Reader) Play(a *analyzer.Analyzer, until uint64, told func(input.Input)) (missing []string, err error) {
	return r.PlayFrom(a, 0, until, told)
}

// PlayFrom is as Play, for whom what came before an instant is of no interest but for its outcome: it may begin at one of
// Savepoints then, and the analyzer's Observer is not told of what was before that.
func (r *Reader) PlayFrom(a *analyzer.Analyzer, from, until uint64, told func(input.Input)) (missing []string, err error) {
	p := player{reader: r, analyzer: a, until: until, since: min(from, until), told: told}
	err = p.play()
	return p.warnings(), err
}

// Stored is the trace's own last Report, if the recording has it, as JSON that is to be checked as any file of
// somebody else. It is valid until the Reader is used again.
func (r *Reader) Stored() ([]byte, bool) {
	for i := len(r.blocks) - 1; i >= 0; i-- {
		if r.blocks[i].head.kind == kindReport {
			text, err := r.payload(r.blocks[i])
			return text, err == nil
		}
	}
	return nil, false
}

// StoredSize is what that takes in the file, in bytes; 0 if it has none.
func (r *Reader) StoredSize() int64 {
	for i := len(r.blocks) - 1; i >= 0; i-- {
		if h := &r.blocks[i].head; h.kind == kindReport {
			return int64(h.stored) + headSize
		}
	}
	return 0
}

// A player plays a recording to an analyzer.
type player struct {
	reader   *Reader
	analyzer *analyzer.Analyzer
	until    uint64
	since    uint64 // what comes before is of no interest but for its outcome
	last     uint64 // time of the last input that has one
	event    uint64 // that of the last event; 0: none yet
	reached  int    // the block where it ended
	instant  bool   // it ended with an Instant and its names, as a trace does
	late     bool   // what is given at once is of times after the instant already
	broken   bool   // something is missing: the analyzer's numbers are not the recording's any more
	// It began with a checkpoint, of that time: the numbers are its own from the beginning on.
	renumbered bool
	from       uint64
	leftOut    input.LeftOut // before that
	dropped    int           // names and verdicts that were lost by that
	unnamed    int           // stacks whose names take too much
	gaps       []Gap
	err        error
	told       func(input.Input) // nil: nobody is
	held       holdings
	done       uint64    // events in the blocks that were played
	saved      time.Time // when the last of Savepoints was made or begun with
}

// give gives the analyzer an input.
func (p *player) give(in input.Input) {
	p.analyzer.Take(in)
	if p.told != nil {
		p.told(in)
	}
}

func (p *player) play() (err error) {
	defer p.catch(&err)
	r := p.reader
	first, err := p.start()
	if err != nil {
		return err
	}
	p.reached = len(r.blocks)
	for i := first; i < len(r.blocks); i++ {
		err := r.watch(i)
		if err == nil {
			err = p.playBlock(&r.blocks[i])
		}
		if errors.Is(err, errStop) {
			p.reached = i
			if err = p.takeNames(); err != nil {
				return err
			}
			break
		}
		if err != nil {
			return err
		}
		p.done += uint64(r.blocks[i].head.events)
		r.Savepoints.offer(i+1, p)
	}
	return r.watch(len(r.blocks))
}

// start gives what was known where the playing begins, and returns the block that comes next.
func (p *player) start() (int, error) {
	if s := p.reader.Savepoints.before(p.since); s != nil {
		if next, err := p.resume(s); err == nil {
			return next, nil
		} // there is no memory for all at once: playing from the beginning gives the same
	}
	p.last, p.saved = p.reader.header.Config.Start, time.Now()
	return p.begin()
}

func (p *player) playBlock(b *place) error {
	if b.gap != 0 {
		g, err := p.widest(b)
		if err == nil {
			err = p.gap(g)
		}
		if err != nil {
			return err
		}
	}
	if b.head.kind != kindInputs {
		return nil
	}
	return p.reader.block(b, false, p.take, p.gap)
}

// widest is the gap before a block, as long as it can have been. The heads tell of windows and stacks, too, which stand
// beside events of other times: those of blocks that follow each other overlap. Events come in the order of their times,
// so that what is missing lies between the last one before and the first one after.
func (p *player) widest(b *place) (Gap, error) {
	r := p.reader
	g := r.gaps[b.gap-1]
	if p.event != 0 {
		g.First = min(g.First, p.event)
	}
	if g.Last == 0 || b.head.kind != kindInputs {
		return g, nil
	}
	first, unknown := b.head.last, r.unknown
	err := r.block(b, false, func(in input.Input) error {
		v, ok := in.(*input.Events)
		if !ok {
			return nil
		}
		first = v.Events[0].Time
		return errStop
	}, func(Gap) error { return nil })
	r.unknown, r.names.taken = unknown, 0 // it is read once more
	g.Last = max(g.Last, first)
	if errors.Is(err, errStop) {
		err = nil
	}
	return g, err
}

// catch makes an error of a panic in the analyzer, which trusts what a tracer tells it.
func (p *player) catch(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("%w: %v", ErrImpossible, v)
	}
}

// take gives one input to the analyzer, up to the instant.
func (p *player) take(in input.Input) error {
	if v, ok := in.(*input.Events); ok {
		return p.takeEvents(v)
	}
	if t := timeOf(in); t > p.until {
		p.late = true
		if t-p.until > maxLag {
			return errStop
		}
	} else {
		p.last = max(p.last, t)
	}
	if p.late && !isEarly(in) {
		return nil
	}
	if p.broken || p.renumbered {
		if in = p.mend(in); in == nil {
			p.dropped++
			return nil
		}
	}
	if err := p.held.add(in); err != nil {
		return err
	}
	if v, ok := in.(input.Names); ok && !p.hasRoom(&v) {
		return nil
	}
	p.give(in)
	switch in.(type) {
	case input.Names, input.PoolName:
	case input.Instant:
		p.instant = true
	default:
		p.instant = false
	}
	return nil
}

// hasRoom reports whether the names of a stack are to be kept.
func (p *player) hasRoom(v *input.Names) bool {
	frames := p.reader.names.taken
	p.reader.names.taken = 0
	if p.held.hasRoom(v, frames) {
		return true
	}
	p.unnamed++
	return false
}

// maxLag is how much later than what it tells of an event is given at most, ns. Events pass through rings and wait to be put
// in order, while windows and readings are given at once: such of a time after the instant may stand before events
// from before it.
const maxLag = 60e9

// isEarly reports whether an input belongs to events that are still to come, or are old: it is taken until the first
// event after the instant.
func isEarly(in input.Input) bool {
	switch in.(type) {
	case input.Stack, input.Names, input.PoolName:
		return true
	}
	return false
}

func (p *player) takeEvents(v *input.Events) error {
	n := len(v.Events)
	for n > 0 && v.Events[n-1].Time > p.until {
		n--
	}
	if n > 0 {
		all := v.Events
		p.last, p.event, v.Events = max(p.last, all[n-1].Time), all[n-1].Time, all[:n]
		p.give(v)
		v.Events, p.instant = all, false
	}
	if n < len(v.Events) {
		return errStop
	}
	return nil
}

// takeNames gives the names that come after the instant: code that ran before it mostly was named later.
func (p *player) takeNames() error {
	r := p.reader
	p.analyzer.Take(input.Instant{Now: p.until}) // names that don't hold for good are for the Instant before them
	take := func(in input.Input) error {
		v, ok := in.(input.Names)
		if !ok || !v.Last && p.broken {
			return nil
		}
		if p.broken || p.renumbered {
			if in = p.mend(in); in == nil {
				return nil
			}
		}
		if p.hasRoom(&v) {
			p.analyzer.Take(in)
		}
		return nil
	}
	for i := p.reached; i < len(r.blocks); i++ {
		b := &r.blocks[i]
		if err := r.watch(i); err != nil {
			return err
		}
		if b.gap != 0 {
			p.broken = true
		}
		if b.head.kind != kindInputs || b.head.flags&flagNames == 0 {
			continue
		}
		if err := r.block(b, true, take, func(Gap) error { p.broken = true; return nil }); err != nil {
			return err
		}
	}
	return nil
}

// gap tells the analyzer that something is missing: whatever lives may have ended meanwhile.
func (p *player) gap(g Gap) error {
	if g.First > p.until && g.First-p.until > maxLag {
		return errStop
	}
	p.broken = true
	p.gaps = append(p.gaps, g)
	for _, pid := range p.analyzer.Living() {
		p.give(input.ProcessLoss{PID: pid, Events: max(1, g.Events), First: g.First, Last: max(g.First, g.Last)})
	}
	return nil
}

// mend replaces numbers of the trace's analyzer, which are this one's no more, by this one's. It returns nil where
// it doesn't know them.
func (p *player) mend(in input.Input) input.Input {
	switch v := in.(type) {
	case input.Names:
		number, ok := p.analyzer.StackNumber(v.PID, v.ID)
		if !ok {
			return nil
		}
		v.Stack = number
		return v
	case input.Memory:
		v.Sites, v.Regions, v.Leaks = nil, nil, nil
		return v
	case input.LeftOut:
		return p.uncounted(v)
	case input.Verdicts:
		kept := v.Leaks[:0]
		for _, l := range v.Leaks {
			var ok bool
			if l.Site, ok = p.analyzer.SiteAt(v.PID, l.Addr); ok {
				kept = append(kept, l)
			} else {
				p.dropped++
			}
		}
		v.Leaks = kept
		return v
	}
	return in
}

// report makes the Report of the instant that was played to.
func (p *player) report(opt analyzer.ReportOptions) (out *report.Report) {
	defer p.catch(&p.err)
	if p.reached == len(p.reader.blocks) && !(p.instant && p.until == End) {
		p.analyzer.Take(input.Instant{Now: min(p.until, p.lastTime())})
	}
	out = p.analyzer.Report(opt)
	if s, ok := p.shown(); ok {
		s.addTo(out)
	}
	out.Warnings = append(out.Warnings, p.warnings()...)
	if p.until != End {
		out.Notes = append(out.Notes, readingsNote(out)...)
	}
	return out
}

// readingsNote says of when the figures are that were read from /proc.
func readingsNote(r *report.Report) []string {
	oldest, never := time.Duration(0), 0
	for i := range r.Processes {
		switch p := &r.Processes[i]; {
		case p.Exited:
		case p.Usage.SampledNS == 0:
			never++
		default:
			oldest = max(oldest, time.Duration(r.WindowNS-min(r.WindowNS, p.Usage.SampledNS)))
		}
	}
	var out []string
	if oldest >= time.Millisecond {
		out = append(out, fmt.Sprintf("Where memory was (RSS, RESIDENT) is as of the last reading, up to %v before. What lived is of the instant.", oldest.Round(time.Millisecond)))
	}
	if never > 0 {
		out = append(out, fmt.Sprintf("Where memory was (RSS, RESIDENT) had not been read yet of %d processes.", never))
	}
	return out
}

// lastTime is the end of the recording, where nobody asked for another instant.
func (p *player) lastTime() uint64 {
	if p.until != End {
		return p.until
	}
	return p.last
}

// shown is what Reports had beside the analyzer's at the instant.
func (p *player) shown() (s Shown, found bool) {
	for i := range p.reader.blocks {
		b := &p.reader.blocks[i]
		if b.head.kind != kindShown {
			continue
		}
		if b.head.first > p.until {
			break
		}
		text, err := p.reader.payload(*b)
		var next Shown
		if err == nil && decoding.Unmarshal(text, &next) == nil {
			s, found = next, true
		}
	}
	return s, found
}

// warnings say what is missing.
func (p *player) warnings() (out []string) {
	h := &p.reader.header
	since := func(t uint64) time.Duration {
		return time.Duration(t - min(t, h.Config.Start)).Round(time.Millisecond)
	}
	if p.renumbered {
		out = append(out, p.fromWarning())
	}
	for i, g := range p.gaps {
		if i == maxToldGaps {
			out = append(out, fmt.Sprintf("and %d more parts of the recording are missing", len(p.gaps)-i+p.reader.more))
			break
		}
		span := fmt.Sprintf("from %v on", since(g.First))
		if g.Last != 0 {
			span = fmt.Sprintf("from %v to %v", since(g.First), since(g.Last))
		}
		events := "it is not known how many events"
		if g.Events > 0 {
			events = fmt.Sprintf("%d events", g.Events)
		}
		out = append(out, fmt.Sprintf("the recording lacks what happened %s, %s: %s. Blocks that were freed then still show as live", span, events, g.Why))
	}
	if p.dropped > 0 {
		out = append(out, fmt.Sprintf("%d names and verdicts after that could not be told whose they are, and are left out", p.dropped))
	}
	if p.unnamed > 0 {
		out = append(out, fmt.Sprintf("the names of %d stacks are left out, and show as addresses: all of them take more than %d MiB", p.unnamed, maxHeld>>20))
	}
	if p.reader.unknown > 0 {
		out = append(out, fmt.Sprintf("%d records are of kinds that a later memtrace wrote, and are passed over", p.reader.unknown))
	}
	return append(out, p.endWarnings()...)
}

// maxToldGaps bounds the warnings.
const maxToldGaps = 10

// endWarnings say how the recording ended, where that was not the trace's end.
func (p *player) endWarnings() []string {
	r := p.reader
	switch {
	case p.reached < len(r.blocks): // before that
	case r.end == nil:
		return []string{"the recording was not closed: it is still being written, or memtrace was killed or the file cut. What came after, mostly a second, is missing"}
	case r.end.Why != "":
		return []string{r.end.Why + ": what came after is not in it (--max-size)"}
	}
	return nil
}
