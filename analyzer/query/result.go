package query

import (
	"github.com/memtrace/memtrace/analyzer/report"
)

// Schema names the JSON document of a Result.
const Schema = "memtrace.query/1"

// A Result is the answer to a query: Groups, Blocks, Events or Steps, and the figures of all blocks that
// fulfil it. Times are ns since the trace began.
type Result struct {
	Schema     string  `json:"schema"`
	Expression string  `json:"expression"`
	FromNS     uint64  `json:"from_ns"`
	ToNS       uint64  `json:"to_ns"`
	By         string  `json:"by,omitempty"`
	Order      string  `json:"order,omitempty"`
	Total      Figures `json:"total"`

	Groups  []Group  `json:"groups,omitempty"`
	Blocks  []Row    `json:"blocks,omitempty"`
	Events  []Event  `json:"events,omitempty"`
	Steps   []Step   `json:"steps,omitempty"`
	StepNS  uint64   `json:"step_ns,omitempty"`
	Omitted uint64   `json:"omitted"`           // groups, blocks or events that are not listed
	Rest    *Figures `json:"rest,omitempty"`    // of the groups that are not listed
	NoRoom  *Figures `json:"no_room,omitempty"` // of blocks whose groups found no room, and are not counted in Omitted
	Notes   []string `json:"notes"`
}

// A Member is what is known of blocks that have something in common, beside their figures.
type Member struct {
	Key   string          `json:"key"`
	Sites int             `json:"sites,omitempty"` // so many call sites, where the grouping goes by them
	Site  *uint32         `json:"site,omitempty"`  // by site: the lowest Site.ID of a Report of the same trace
	PID   uint32          `json:"pid,omitempty"`   // by site
	Comm  string          `json:"-"`               // by site: the process's name
	Stack []*report.Frame `json:"stack,omitempty"` // by site: innermost first
	// FunctionFrame is the frame of Stack that Key is of.
	FunctionFrame int    `json:"function_frame,omitempty"`
	sort          uint64 // the number that it goes by
}

// is has a Member say which site it is of.
func (m *Member) is(s *site) {
	number := s.number
	m.Key, m.Site, m.PID, m.Comm, m.Stack, m.FunctionFrame = s.function, &number, s.name.Info.PID, s.comm, s.name.Frames, s.name.FunctionFrame
}

// A Group is the figures of blocks that have something in common.
type Group struct {
	Member
	Figures
}

// A Row is one block.
type Row struct {
	Addr       uint64 `json:"addr"`
	Size       uint64 `json:"size"`
	BornNS     uint64 `json:"born_ns"`
	EndedNS    uint64 `json:"ended_ns,omitempty"` // 0: it lives
	LifetimeNS uint64 `json:"lifetime_ns"`
	PID        uint32 `json:"pid"`
	Thread     uint32 `json:"thread,omitempty"`
	FreeThread uint32 `json:"free_thread,omitempty"`
	Kind       string `json:"kind,omitempty"`
	EndedBy    string `json:"ended_by,omitempty"`
	Reallocs   uint16 `json:"realloc_chain"`
	Temporary  bool   `json:"temporary"`
	Leak       string `json:"leak,omitempty"`
	Site       uint32 `json:"site"`
	Function   string `json:"function"`
	File       string `json:"file,omitempty"`
	Line       int    `json:"line,omitempty"`
}

// An Event is the birth or the end of a block.
type Event struct {
	TimeNS   uint64 `json:"time_ns"`
	Event    string `json:"event"` // a Cause: alloc, free, …; realloc is two
	End      bool   `json:"end"`   // of the block
	Addr     uint64 `json:"addr"`
	Size     uint64 `json:"size"`
	PID      uint32 `json:"pid"`
	Thread   uint32 `json:"thread,omitempty"`
	Site     uint32 `json:"site"` // where the block was allocated
	Function string `json:"function"`
}

// A Step is what happened from FromNS on to the next, and what lived at its end.
type Step struct {
	FromNS     uint64 `json:"from_ns"`
	LiveBytes  uint64 `json:"live_bytes"`
	LiveCount  uint64 `json:"live_count"`
	BornBytes  uint64 `json:"born_bytes"`
	BornCount  uint64 `json:"born_count"`
	EndedBytes uint64 `json:"ended_bytes"`
	EndedCount uint64 `json:"ended_count"`
}

// An order is by a figure, from high to low.
type order struct {
	word  string
	group func(*Figures) uint64
	row   func(*Row) uint64 // nil: single blocks have none
}

var orders = []order{
	{"bytes", func(f *Figures) uint64 { return f.Bytes }, func(r *Row) uint64 { return r.Size }},
	{"count", func(f *Figures) uint64 { return f.Count }, nil},
	{"live", func(f *Figures) uint64 { return f.LiveBytes }, nil},
	{"freed", func(f *Figures) uint64 { return f.FreedCount }, nil},
	{"temporary", func(f *Figures) uint64 { return f.TemporaryCount }, nil},
	{"leaked", func(f *Figures) uint64 { return f.LeakedBytes }, nil},
	{"lifetime", func(f *Figures) uint64 { return f.MaxLifetimeNS }, func(r *Row) uint64 { return r.LifetimeNS }},
	{"first", func(f *Figures) uint64 { return ^f.FirstBornNS }, func(r *Row) uint64 { return ^r.BornNS }},
	{"last", func(f *Figures) uint64 { return f.LastBornNS }, func(r *Row) uint64 { return r.BornNS }},
	{"key", nil, nil}, // of groups: as numbers or letters have it
}

// orderOf is by bytes where no word is given.
func orderOf(word string) *order {
	for i := range orders {
		if orders[i].word == word {
			return &orders[i]
		}
	}
	return &orders[0]
}
