package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/memtrace/memtrace/analyzer/report"
)

// A ledger is what is known of a service's growth by call stack. What was touched is counted through all tracers that
// the service has had, one after the other, and never falls; what is live is the present tracer's.
type ledger struct {
	mu     sync.Mutex
	tracer int // number of the present one
	frames map[report.Frame]*frame
	stacks map[string]*account
	all    []*account
	other  account         // of stacks beyond MaxStacks
	exe    string          // that the service's processes run
	shown  map[string]bool // lines of code that steadySites gave last
	// numbered is how many frames there ever were.
	numbered int

	// Of the present tracer, by its numbers.
	tracerFrames []*frame
	tracerStacks []entry
	tracerOther  entry
}

// frame is a frame that many stacks may have.
type frame struct {
	report.Frame
	number int // no other one has had
}

// account is one stack's.
type account struct {
	key       string
	tracer    int // that has had the stack last
	stack     []*frame
	function  int // index of the frame that it is called after
	truncated bool
	figures   StackFigures
}

// entry is a tracer's stack: whose account it is on, and what of it was booked already.
type entry struct {
	to     *account
	booked StackFigures
}

func newLedger() *ledger {
	l := &ledger{frames: make(map[report.Frame]*frame), stacks: make(map[string]*account)}
	l.begin()
	return l
}

// begin is for a new tracer. Nobody knows any more what the last one's pages became.
func (l *ledger) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tracer++
	l.tracerFrames, l.tracerStacks, l.tracerOther = nil, nil, entry{to: &l.other}
	for _, a := range l.each() {
		a.figures.LiveBytes, a.figures.LiveCount = 0, 0
	}
}

// each are all accounts.
func (l *ledger) each() []*account { return append(slices.Clip(l.all), &l.other) }

var errFeed = errors.New("the tracer names a frame or a stack that it has not told of")

// take books a Feed.
func (l *ledger) take(f *Feed) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.Exe != "" {
		l.exe = f.Exe
	}
	for i := range f.Frames {
		l.tracerFrames = append(l.tracerFrames, l.frame(&f.Frames[i]))
	}
	for i := range f.Stacks {
		a, err := l.account(&f.Stacks[i])
		if err != nil {
			return err
		}
		l.tracerStacks = append(l.tracerStacks, entry{to: a})
	}
	for i := range f.Sites {
		s := &f.Sites[i]
		switch {
		case s.Stack == OtherStacks:
			l.tracerOther.book(s)
		case s.Stack >= 0 && s.Stack < len(l.tracerStacks):
			l.tracerStacks[s.Stack].book(s)
		default:
			return errFeed
		}
	}
	return nil
}

func (l *ledger) frame(f *report.Frame) *frame {
	known := l.frames[*f]
	if known == nil {
		l.numbered++
		known = &frame{*f, l.numbered}
		l.frames[*f] = known
	}
	return known
}

// account is that of a stack, and that of all others where there are too many.
func (l *ledger) account(s *FeedStack) (*account, error) {
	stack, key := make([]*frame, len(s.Frames)), make([]byte, 0, 8*len(s.Frames))
	for i, n := range s.Frames {
		if n < 0 || n >= len(l.tracerFrames) {
			return nil, errFeed
		}
		stack[i] = l.tracerFrames[n]
		key = strconv.AppendInt(append(key, ','), int64(stack[i].number), 36)
	}
	if known := l.stacks[string(key)]; known != nil {
		known.tracer = l.tracer
		return known, nil
	}
	if len(l.all) >= MaxStacks {
		l.evict()
	}
	if len(l.all) >= MaxStacks || len(stack) == 0 {
		return &l.other, nil
	}
	a := &account{key: string(key), tracer: l.tracer, stack: stack, function: min(max(s.Function, 0), len(stack)-1), truncated: s.Truncated}
	l.stacks[a.key], l.all = a, append(l.all, a)
	return a, nil
}

// evict makes room: a quarter of the stacks, those that no tracer has had for longest, is among the others from now on.
// Those of the present tracer stay. A service that is updated each day has new stacks each day.
func (l *ledger) evict() {
	slices.SortStableFunc(l.all, func(x, y *account) int { return cmp.Compare(x.tracer, y.tracer) })
	n := 0
	for ; n < MaxStacks/4 && l.all[n].tracer != l.tracer; n++ {
		a := l.all[n]
		l.other.figures.TouchedBytes += a.figures.TouchedBytes
		l.other.figures.TouchedCount += a.figures.TouchedCount
		delete(l.stacks, a.key)
	}
	l.all = slices.Clone(l.all[n:])
	clear(l.frames)
	for _, f := range l.tracerFrames {
		l.frames[f.Frame] = f
	}
	for _, a := range l.all {
		for _, f := range a.stack {
			l.frames[f.Frame] = f
		}
	}
}

// book adds what changed since the Feed before. Live figures may fall: an unsigned difference then wraps around, and
// the sum that it is added to wraps back.
func (e *entry) book(s *StackFigures) {
	to := &e.to.figures
	to.LiveBytes += s.LiveBytes - e.booked.LiveBytes
	to.LiveCount += s.LiveCount - e.booked.LiveCount
	to.TouchedBytes += s.TouchedBytes - min(e.booked.TouchedBytes, s.TouchedBytes)
	to.TouchedCount += s.TouchedCount - min(e.booked.TouchedCount, s.TouchedCount)
	e.booked = *s
}

// otherStacks names the stacks that have no account of their own.
const otherStacks = "[all other stacks]"

// report is the ledger as a Report of one process, which stands for the service.
func (l *ledger) report(service string) *report.Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &report.Report{Schema: report.Schema, Basis: report.FirstTouchBasis, Processes: []report.Process{{ID: 1, Comm: service, Exe: l.exe}}}
	for i, a := range l.each() {
		f := &a.figures
		if f.TouchedCount == 0 {
			continue
		}
		s := report.Site{
			ID: i, Process: 1, Stack: a.frames(), FunctionFrame: a.function, Truncated: a.truncated, Function: otherStacks,
			LiveBytes: f.LiveBytes, LiveCount: f.LiveCount,
			AllocBytes: f.TouchedBytes, AllocCount: f.TouchedCount, FreeCount: f.TouchedCount - min(f.LiveCount, f.TouchedCount),
		}
		if len(a.stack) == 0 {
			s.Stack = []*report.Frame{{Function: otherStacks}}
		} else {
			s.Function = a.stack[a.function].Function
		}
		r.Sites = append(r.Sites, s)
	}
	return r
}

func (a *account) frames() (out []*report.Frame) {
	for _, f := range a.stack {
		out = append(out, &f.Frame)
	}
	return out
}

// Site is a line of code of a service, and what its growth is that belongs to it.
type Site struct {
	name     string // tells it from all others
	Function string `json:"function"`
	File     string `json:"file"` // "" where it is not known
	Line     int    `json:"line"`
	// Stack is that of most of its growth, as functions, innermost first.
	Stack []string `json:"stack"`
	// Grown are pages that were first touched there since the present tracer began, and are there; Touched are those
	// that ever were, since the agent began. Bytes.
	Grown   uint64 `json:"grown"`
	Touched uint64 `json:"touched"`
}

// sites are the lines with most growth, at most n of them, and what the rest comes to.
func (l *ledger) sites(n int) (top []Site, rest Site) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ranked(n, nil)
}

// steadySites is sites, but a line that was among them the last time stays until another one has grown to twice as
// much. Two that grow alike would else take turns.
func (l *ledger) steadySites(n int) (top []Site, rest Site) {
	l.mu.Lock()
	defer l.mu.Unlock()
	top, rest = l.ranked(n, l.shown)
	l.shown = make(map[string]bool, len(top))
	for i := range top {
		l.shown[top[i].name] = true
	}
	return top, rest
}

// ranked is sites, in which those that are favoured count twice.
func (l *ledger) ranked(n int, favoured map[string]bool) (top []Site, rest Site) {
	byLine, most := make(map[string]int), make(map[string]uint64)
	rest.Grown, rest.Touched = l.other.figures.LiveBytes, l.other.figures.TouchedBytes
	for _, a := range l.all {
		f := a.stack[a.function]
		key := siteName(f.Function, f.File, f.Line)
		i, known := byLine[key]
		if !known {
			i = len(top)
			byLine[key], top = i, append(top, Site{name: key, Function: f.Function, File: f.File, Line: f.Line})
		}
		top[i].Grown += a.figures.LiveBytes
		top[i].Touched += a.figures.TouchedBytes
		if !known || a.figures.LiveBytes > most[key] {
			most[key], top[i].Stack = a.figures.LiveBytes, functions(a.stack)
		}
	}
	weight := func(s *Site) uint64 {
		if favoured[s.name] {
			return 2 * s.Grown
		}
		return s.Grown
	}
	slices.SortFunc(top, func(x, y Site) int {
		return cmp.Or(
			cmp.Compare(weight(&y), weight(&x)), cmp.Compare(y.Touched, x.Touched), cmp.Compare(x.name, y.name),
		)
	})
	for _, s := range top[min(n, len(top)):] {
		rest.Grown += s.Grown
		rest.Touched += s.Touched
	}
	return top[:min(n, len(top))], rest
}

func functions(stack []*frame) (names []string) {
	for _, f := range stack {
		names = append(names, f.Function)
	}
	return names
}

// siteName is what a line of code is called.
func siteName(function, file string, line int) string {
	if file == "" {
		return function
	}
	return fmt.Sprintf("%s %s:%d", function, file, line)
}
