package query

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/render"
)

// SpanSchema names the JSON document of a Span.
const SpanSchema = "memtrace.span/1"

// A Span says what happened to the blocks of a trace between two instants: which were born in between, and what became of
// them. Times are ns since the trace began.
type Span struct {
	Schema  string       `json:"schema"`
	FromNS  uint64       `json:"from_ns"`
	ToNS    uint64       `json:"to_ns"`
	By      string       `json:"by"`
	Order   string       `json:"order"`
	Total   SpanFigures  `json:"total"`
	Groups  []SpanGroup  `json:"groups"`
	Omitted uint64       `json:"omitted"`           // groups that are not listed
	Rest    *SpanFigures `json:"rest,omitempty"`    // of these
	NoRoom  *SpanFigures `json:"no_room,omitempty"` // of blocks whose groups found no room, and are not counted in Omitted
	Notes   []string     `json:"notes"`
}

// SpanFigures add up blocks. Born is Survived and Churned together, and Live is Before and Born less Ended.
type SpanFigures struct {
	BeforeBytes   uint64 `json:"before_bytes"` // live at the beginning
	BeforeCount   uint64 `json:"before_count"`
	BornBytes     uint64 `json:"born_bytes"` // began in the span: allocated, or a child's copies at its fork
	BornCount     uint64 `json:"born_count"`
	EndedBytes    uint64 `json:"ended_bytes"` // ended in it, whenever they were born
	EndedCount    uint64 `json:"ended_count"`
	FreedCount    uint64 `json:"freed_count"`    // of those that ended: whose end counts as a free
	SurvivedBytes uint64 `json:"survived_bytes"` // born in it, and live at its end
	SurvivedCount uint64 `json:"survived_count"`
	ChurnedBytes  uint64 `json:"churned_bytes"` // born in it, and ended in it
	ChurnedCount  uint64 `json:"churned_count"`
	LiveBytes     uint64 `json:"live_bytes"` // live at its end
	LiveCount     uint64 `json:"live_count"`
}

// A SpanGroup is blocks that have something in common. The first fields are those of Group.
type SpanGroup struct {
	Member
	SpanFigures
}

// SpanOptions say what is looked at.
type SpanOptions struct {
	From, To uint64 // ns since Config.Start; To 0 is the end of the trace
	By       string // a word of Groupings but none; "": site
	Order    string // a word of SpanOrders; "": the first
	Limit    int    // groups at most; 0: all
}

var spanOrders = []struct {
	word   string
	figure func(*SpanFigures) uint64
}{
	{"born", func(f *SpanFigures) uint64 { return f.BornBytes }},
	{"ended", func(f *SpanFigures) uint64 { return f.EndedBytes }},
	{"survived", func(f *SpanFigures) uint64 { return f.SurvivedBytes }},
	{"churned", func(f *SpanFigures) uint64 { return f.ChurnedBytes }},
	{"live", func(f *SpanFigures) uint64 { return f.LiveBytes }},
	{"count", func(f *SpanFigures) uint64 { return f.BornCount }},
}

// SpanOrders lists the words for SpanOptions.Order, each from high to low.
func SpanOrders() (out []string) {
	for _, o := range spanOrders {
		out = append(out, o.word)
	}
	return out
}

// Check returns an error that says what of the options can't be.
func (o *SpanOptions) Check() error {
	switch {
	case o.By == None:
		return fmt.Errorf("a span is summed up by one of %s", strings.Join(Groupings()[:len(groupings)], ", "))
	case o.Order != "" && !slices.Contains(SpanOrders(), o.Order):
		return fmt.Errorf("%q is none of %s", o.Order, strings.Join(SpanOrders(), ", "))
	}
	whole := Options{From: o.From, To: o.To, By: o.By, Limit: o.Limit}
	return whole.Check()
}

// RunSpan sums up a span of a trace. Errors are those of the source and of SpanOptions.Check.
func RunSpan(src Source, o SpanOptions) (*Span, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	q, err := Compile("")
	if err != nil {
		return nil, err
	}
	r, err := newRunner(src, q, Options{From: o.From, To: o.To, By: o.By, Limit: o.Limit})
	if err != nil {
		return nil, err
	}
	c := &spanGroups{groupTable: newGroupTable[spanSums, SpanFigures](r, false), order: o.Order}
	r.span = c
	if err := r.once(); err != nil {
		return nil, err
	}
	c.out.Notes = r.result.Notes
	return c.out, nil
}

// spanSums are SpanFigures that are being added up.
type spanSums struct {
	before, born, ended, freed, churned moves

	samples uint64
}

func (t *spanSums) add(s *subject) {
	born := s.life.Since > s.from || s.from == 0
	if s.life.Interval != 0 {
		t.samples++
	}
	if born {
		t.born.add(s.life)
	} else {
		t.before.add(s.life)
	}
	if s.live {
		return
	}
	t.ended.add(s.life)
	if s.life.Cause.Frees() {
		t.freed.add(s.life)
	}
	if born {
		t.churned.add(s.life)
	}
}

func (t *spanSums) merge(o *spanSums) {
	t.before.merge(&o.before)
	t.born.merge(&o.born)
	t.ended.merge(&o.ended)
	t.freed.merge(&o.freed)
	t.churned.merge(&o.churned)
	t.samples += o.samples
}

func (t *spanSums) figures() (f SpanFigures) {
	f.BeforeCount, f.BeforeBytes = t.before.figures()
	f.BornCount, f.BornBytes = t.born.figures()
	f.EndedCount, f.EndedBytes = t.ended.figures()
	f.FreedCount, _ = t.freed.figures()
	f.ChurnedCount, f.ChurnedBytes = t.churned.figures()
	survived, live := t.born, t.before
	survived.sub(&t.churned)
	live.merge(&t.born)
	live.sub(&t.ended)
	f.SurvivedCount, f.SurvivedBytes = survived.figures()
	f.LiveCount, f.LiveBytes = live.figures()
	return f
}

// empty reports whether no block was added.
func (t *spanSums) empty() bool { return t.before.count+t.born.count == 0 }

// spanGroups is a collector of SpanFigures by group.
type spanGroups struct {
	groupTable[spanSums, SpanFigures, *spanSums]
	order   string
	sampled bool
	out     *Span
}

func (c *spanGroups) fill(r *runner) {
	order := spanOrders[max(0, slices.Index(SpanOrders(), c.order))]
	list, res := c.list(r, order.figure), r.result
	c.sampled = list.sums.samples != 0
	c.out = &Span{
		Schema: SpanSchema, FromNS: res.FromNS, ToNS: res.ToNS, By: c.by.word, Order: order.word,
		Total: list.sums.figures(), Groups: make([]SpanGroup, 0, len(list.rows)),
		Omitted: list.omitted, Rest: list.rest, NoRoom: list.noRoom,
	}
	for _, row := range list.rows {
		c.out.Groups = append(c.out.Groups, SpanGroup{row.Member, row.figures})
	}
}

// Write writes a Span in a format of Formats, as Write does a Result.
func (s *Span) Write(w io.Writer, format string, width int) error {
	var out []byte
	var err error
	switch format {
	case "json":
		out, err = render.EncodeJSON(s, "  ", false)
	case "csv":
		out = render.EncodeCSV(s.table(false))
	default:
		out = s.text(width)
	}
	if err == nil {
		_, err = w.Write(out)
	}
	if err != nil {
		return fmt.Errorf("write the span: %w", err)
	}
	return nil
}

func (s *Span) text(width int) []byte {
	var b strings.Builder
	t := &s.Total
	fmt.Fprintf(&b, "From %s to %s: %s of %s born, of which %s with %s survived and %s with %s ended; %s of %s ended in all\n", humanTime(s.FromNS), humanTime(s.ToNS),
		blocks(t.BornCount), humanBytes(t.BornBytes), grouped(t.SurvivedCount), humanBytes(t.SurvivedBytes), grouped(t.ChurnedCount), humanBytes(t.ChurnedBytes),
		blocks(t.EndedCount), humanBytes(t.EndedBytes))
	fmt.Fprintf(&b, "Live: %s of %s before, %s of %s after\n", blocks(t.BeforeCount), humanBytes(t.BeforeBytes), blocks(t.LiveCount), humanBytes(t.LiveBytes))
	if rows := s.table(true); len(rows) > 1 {
		b.WriteString("\n")
		writeFitted(&b, rows, s.By, width)
	}
	if s.Rest != nil {
		fmt.Fprintf(&b, "… and %s more groups: %s of %s born, %s of %s ended (--top 0 shows more)\n", grouped(s.Omitted),
			blocks(s.Rest.BornCount), humanBytes(s.Rest.BornBytes), blocks(s.Rest.EndedCount), humanBytes(s.Rest.EndedBytes))
	}
	if s.NoRoom != nil {
		fmt.Fprintf(&b, "… and %s of %s born, of more groups than there is room for\n", blocks(s.NoRoom.BornCount), humanBytes(s.NoRoom.BornBytes))
	}
	return []byte(b.String())
}

// table has a row of headings, then one for each group.
func (s *Span) table(human bool) [][]string {
	f := figure{human}
	out := headings(f, []string{"BORN", "BORN COUNT", "ENDED", "ENDED COUNT", "SURVIVED", "CHURNED", "LIVE"},
		[]string{"before_bytes", "before_count", "born_bytes", "born_count", "ended_bytes", "ended_count", "freed_count", "survived_bytes", "survived_count", "churned_bytes", "churned_count",
			"live_bytes", "live_count"})
	out[0] = append(out[0], headings(f, []string{groupHeading(s.By)}, []string{s.By})[0]...)
	for i := range s.Groups {
		g := &s.Groups[i]
		row := []string{f.bytes(g.BornBytes), f.count(g.BornCount), f.bytes(g.EndedBytes), f.count(g.EndedCount), f.bytes(g.SurvivedBytes), f.bytes(g.ChurnedBytes), f.bytes(g.LiveBytes)}
		if !human {
			row = []string{f.bytes(g.BeforeBytes), f.count(g.BeforeCount), f.bytes(g.BornBytes), f.count(g.BornCount), f.bytes(g.EndedBytes), f.count(g.EndedCount), f.count(g.FreedCount),
				f.bytes(g.SurvivedBytes), f.count(g.SurvivedCount), f.bytes(g.ChurnedBytes), f.count(g.ChurnedCount), f.bytes(g.LiveBytes), f.count(g.LiveCount)}
		}
		out = append(out, append(row, g.title(f)))
	}
	return out
}
