package dwarf

import (
	"errors"
	"math"
)

const (
	// lookupBudget is the work spent on one address: entries, abbreviations,
	// ranges and rows read. The largest units seen (whole programs by
	// link-time optimisation) have some 10 million entries.
	lookupBudget = 100 << 20
	// maxStrikes is how many lookups may use their budget up before the
	// file's information is taken to be made to waste time, and left alone.
	maxStrikes = 4
	// DefaultLimit is the memory for units read, in bytes.
	DefaultLimit = 64 << 20
)

// limits bound what is held of a file.
type limits struct{ units, spans, rows int }

var (
	// largest are those of Chromium and the like, which has some 50,000 units with 2 million ranges.
	largest = limits{units: 1 << 20, spans: 1 << 22, rows: 1 << 24}
	// small are those of a file of 64 MiB.
	small = limits{units: 1 << 17, spans: 1 << 20, rows: 1 << 21}
)

// ErrWork means that a file takes more work than any honest one of its size: it gets no more answers.
var ErrWork = errors.New("reading it takes more work than any honest file of its size: its lines and inlined functions are left out")

// Sections are the debug sections of a file, each nil where there is none.
type Sections struct {
	Info, Abbrev, Aranges []byte
	Line, LineStr, Str    []byte
	StrOffsets, Addr      []byte
	Ranges, RngLists      []byte

	// Alt is the file that dwz moved common parts of several files to
	// (.gnu_debugaltlink, DWARF 5's supplementary file), or nil.
	Alt *Sections
	// Split finds the sections of split DWARF, or nil.
	Split Splitter
}

// Location is a function at an address, and where in its source.
type Location struct {
	Name    string // linkage name where there is one, else the plain name; "" where unknown
	Linkage bool   // Name is the linkage name
	File    string // path, from the directory of compilation where relative
	Line    int    // 0 where unknown
}

// Data is the debug information of one file.
type Data struct {
	s       Sections
	limit   int
	alt     *Data
	budget  int     // of a lookup
	work    *budget // shared with alt and with split units
	strikes int     // lookups that used their budget up
	most    limits
	allowed int // work left for all lookups
	indexed bool
	units   []unit
	index   spanTable // ref is an index into units
	cache   map[int]*loaded
	held    int // memory for the units in cache, in bytes
	lookups uint64
	spent   int // by the latest lookup
}

// New makes a Data that has read nothing yet. limit bounds the memory for
// units read, in bytes; 0 means DefaultLimit. The sections must stay valid
// and unchanged.
func New(s Sections, limit int) *Data {
	if limit <= 0 {
		limit = DefaultLimit
	}
	d := &Data{s: s, limit: limit, budget: lookupBudget, work: new(budget), most: largest, allowed: math.MaxInt, cache: map[int]*loaded{}}
	if s.Alt != nil {
		d.alt = d.beside(*s.Alt)
	}
	return d
}

// beside makes a Data for sections that d refers to, which shares d's budget.
func (d *Data) beside(s Sections) *Data {
	return &Data{s: s, limit: d.limit, work: d.work, most: d.most, cache: map[int]*loaded{}}
}

// Lookup returns the functions at addr, an ELF virtual address: the innermost
// inlined one first, the function that it was all compiled into last. Where
// there is no function but a line, one Location has the line alone; where
// there is nothing, the result is empty. An error says what part of the
// sections could not be read; the result then has what could. A file that
// takes too much work again and again gets no more answers.
func (d *Data) Lookup(addr uint64) ([]Location, error) {
	if d.strikes >= maxStrikes {
		return nil, nil
	}
	if d.allowed <= 0 {
		return nil, ErrWork
	}
	d.lookups++
	start := min(d.budget, d.allowed)
	d.work.left = start
	if d.alt != nil {
		d.alt.lookups = d.lookups
	}
	var err error
	if !d.indexed {
		d.indexed = true
		err = d.buildIndex()
	}
	var best []Location
	d.index.find(addr, func(s span) bool {
		found, unitErr := d.inUnit(int(s.ref), addr)
		err = errors.Join(err, unitErr)
		if len(found) > 0 && (best == nil || found[0].Name != "") {
			best = found
		}
		return len(best) == 0 || best[0].Name == ""
	})
	d.spent = start - d.work.left
	if d.work.left < 0 {
		d.strikes++
	}
	d.shrink()
	if d.alt != nil {
		d.alt.shrink()
	}
	return best, err
}

// Work is what the latest Lookup read: entries, rows and the like, which have
// some ten bytes each.
func (d *Data) Work() int { return d.spent }

// Allow bounds the work of the next lookup, by what is left for the file: from 0 on there are no more answers. isSmall says
// that the file has at most 64 MiB.
func (d *Data) Allow(work int, isSmall bool) {
	d.allowed = max(work, 0)
	if isSmall {
		d.most = small
		if d.alt != nil {
			d.alt.most = small
		}
	}
}

// Held is the memory that the units read take, in bytes.
func (d *Data) Held() int {
	if d == nil {
		return 0
	}
	n := d.held + 24*len(d.index.spans) + 64*len(d.units)
	return n + d.alt.Held()
}

// inUnit looks addr up in one unit.
func (d *Data) inUnit(i int, addr uint64) ([]Location, error) {
	l, err := d.load(i)
	if err != nil {
		return nil, err
	}
	defer d.charge(l)
	lines, err := d.linesOf(l)
	file, line := lines.at(addr)
	calls, callsErr := d.callsAt(l, addr)
	err = errors.Join(err, callsErr)
	if len(calls) == 0 {
		if file == "" && line == 0 {
			return nil, err
		}
		return []Location{{File: file, Line: line}}, err
	}
	return locate(calls, file, line, lines), err
}

// callsAt returns the functions at addr, outermost first, as the unit has
// them, or its other part where it is split.
func (d *Data) callsAt(l *loaded, addr uint64) ([]call, error) {
	part, partErr := d.splitOf(l)
	if part != nil {
		d, l = part.data, part.loaded
	}
	off, ok, err := d.functionAt(l, addr)
	if !ok {
		return nil, errors.Join(partErr, err)
	}
	calls, chainErr := d.chain(l, off, addr)
	return calls, errors.Join(partErr, err, chainErr)
}

// locate turns a chain of calls, outermost first, into Locations, innermost
// first: each function stands where the next inner one was called, the
// innermost where the line table says.
func locate(calls []call, file string, line int, lines *lineTable) []Location {
	found := make([]Location, 0, len(calls))
	for i := len(calls) - 1; i >= 0; i-- {
		found = append(found, Location{Name: calls[i].name, Linkage: calls[i].linkage, File: file, Line: line})
		file, line = lines.path(calls[i].file), int(min(calls[i].line, 1<<31-1))
	}
	return found
}
