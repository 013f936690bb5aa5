package render

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer/matrix"
	"github.com/memtrace/memtrace/analyzer/snapshot"
)

// flagNames are the words of page-types for the bits of kpageflags
// (tools/mm/page-types.c of the kernel).
var flagNames = [...]string{
	"locked", "error", "referenced", "uptodate", "dirty", "lru", "active", "slab", "writeback", "reclaim", "buddy", "mmap",
	"anonymous", "swapcache", "swapbacked", "compound_head", "compound_tail", "huge", "unevictable", "hwpoison", "nopage", "ksm",
	"thp", "offline", "zero_page", "idle_page", "pgtable",
}

// internalNames are those from internalFlags on, which are for the kernel's own
// people and may change (include/linux/kernel-page-flags.h).
var internalNames = [...]string{
	"reserved", "mlocked", "owner_2", "private", "private_2", "owner_private", "arch", "uncached", "softdirty", "arch_2", "arch_3",
}

const internalFlags = 32

// flagWords names the flags of a frame, as page-types does.
func flagWords(flags uint64) string {
	var words []string
	for rest := flags; rest != 0; rest &= rest - 1 {
		bit := bits.TrailingZeros64(rest)
		switch {
		case bit < len(flagNames):
			words = append(words, flagNames[bit])
		case bit >= internalFlags && bit < internalFlags+len(internalNames):
			words = append(words, internalNames[bit-internalFlags])
		default:
			words = append(words, "bit"+strconv.Itoa(bit))
		}
	}
	return strings.Join(words, ",")
}

var errNoPages = errors.New("the snapshot has no pages: take it with --pages")

// addPages writes what is known page by page: processes, components, flags and
// how often frames are mapped.
func (m *matrixPage) addPages(t *matrix.PageTable) {
	size := func(pages uint64) string { return m.size(pages * t.PageSize) }
	g := &grid{left: map[int]bool{4: true}, styles: map[int]style{0: bold}}
	g.add("PID", "USS", "PSS", "RSS", "NAME")
	rows := topRows(t.Rows, m.opt.Top)
	for i := range rows {
		r := &rows[i]
		cells := []string{strconv.Itoa(r.PID), size(r.USS), m.size(uint64(r.PSS * float64(t.PageSize))), size(r.RSS), clip(clean(r.Comm), nameColumn)}
		if r.Unknown > 0 || r.Access != snapshot.Known {
			cells[1], cells[2] = "?", "?"
		}
		if r.Access != snapshot.Known {
			cells[3] = "≥" + cells[3]
		}
		g.add(cells...)
	}
	g.addTo(m.page)
	m.left(len(t.Rows) - len(rows))
	m.line(plain, "")
	m.pageComponents(t, size)
	m.line(plain, "")
	m.pageFrames(t, size)
	m.line(plain, "")
	m.line(dim, fmt.Sprintf("in %s, by frames: ONCE counts each frame once; %s in %s", m.unit(), size(t.Distinct), counted(t.Distinct, "frame", "frames")))
	m.pageNotes(t)
}

func (m *matrixPage) pageComponents(t *matrix.PageTable, size func(uint64) string) {
	g := &grid{left: map[int]bool{2: true, 3: true}, styles: map[int]style{0: bold}}
	g.add("ONCE", "RSS", "KIND", "COMPONENT")
	rows := topRows(t.Columns, m.opt.Top)
	for i := range rows {
		c := &rows[i]
		g.add(size(c.Frames), size(c.Pages), c.Kind.String(), m.name(c.Name, 32))
	}
	g.addTo(m.page)
	m.left(len(t.Columns) - len(rows))
}

func (m *matrixPage) pageFrames(t *matrix.PageTable, size func(uint64) string) {
	g := &grid{left: map[int]bool{2: true}, styles: map[int]style{0: bold}}
	g.add("FRAMES", "SIZE", "FLAGS")
	rows := topRows(t.ByFlags, m.opt.Top)
	for _, f := range rows {
		g.add(count(f.Frames), size(f.Frames), flagWords(f.Flags))
	}
	g.addTo(m.page)
	m.left(len(t.ByFlags) - len(rows))
	m.line(plain, "")
	g = &grid{styles: map[int]style{0: bold}}
	g.add("MAPPED", "FRAMES", "SIZE")
	shown := topRows(t.ByMapped, m.opt.Top)
	for _, c := range shown {
		g.add(count(uint64(c.Mapped)), count(c.Frames), size(c.Frames))
	}
	g.addTo(m.page)
	m.left(len(t.ByMapped) - len(shown))
}

// pageNotes says which pages and frames were not reached, and why.
func (m *matrixPage) pageNotes(t *matrix.PageTable) {
	p, unread := m.t.Snapshot.Pages, 0
	why := ""
	for i := range t.Rows {
		if r := &t.Rows[i]; r.Access != snapshot.Known {
			unread++
			why = fmt.Sprintf("%s (%d): %s", clean(r.Comm), r.PID, clean(r.Why))
		}
	}
	if unread > 0 {
		m.prose(warning, "", fmt.Sprintf("The pages of %s were not all reached. For example %s.",
			counted(uint64(unread), "process", "processes"), why))
	}
	if p.FramesAccess != snapshot.Known && t.Distinct > 0 {
		m.prose(warning, "", fmt.Sprintf("Counts and flags of %s were not read: %s.",
			counted(p.FramesLeft, "frame", "frames"), clean(p.FramesWhy)))
	}
}

// pageDocument is the JSON of what is known page by page; in pages.
type pageDocument struct {
	Distinct   uint64          `json:"distinct_frames"`
	Unknown    uint64          `json:"unknown_frames"`
	Why        string          `json:"why,omitempty"`
	Processes  []pageProcess   `json:"processes"`
	Components []pageComponent `json:"components"`
	ByFlags    []pageFlags     `json:"by_flags"`
	ByMapped   []pageMapped    `json:"by_map_count"`
}

type pageProcess struct {
	PID    int      `json:"pid"`
	RSS    uint64   `json:"rss_pages"`
	USS    *uint64  `json:"uss_pages"`
	PSS    *float64 `json:"pss_pages"`
	Unread string   `json:"unavailable,omitempty"`
	Why    string   `json:"why,omitempty"`
}

type pageComponent struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Frames uint64 `json:"frames"`
	Pages  uint64 `json:"pages"`
}

type pageFlags struct {
	Flags  uint64 `json:"flags"`
	Names  string `json:"names"`
	Frames uint64 `json:"frames"`
}

type pageMapped struct {
	Mapped uint32 `json:"map_count"`
	Frames uint64 `json:"frames"`
}

func newPageDocument(s *snapshot.Snapshot, opt MatrixOptions) *pageDocument {
	t := matrix.NewPages(s)
	if t == nil {
		return nil
	}
	doc := &pageDocument{
		Distinct: t.Distinct, Unknown: t.Unknown, Why: s.Pages.FramesWhy,
		Processes: []pageProcess{}, Components: []pageComponent{}, ByFlags: []pageFlags{}, ByMapped: []pageMapped{},
	}
	rows := topRows(t.Rows, opt.Top)
	for i := range rows {
		r := &rows[i]
		p := pageProcess{PID: r.PID, RSS: r.RSS, Why: r.Why}
		if r.Access != snapshot.Known {
			p.Unread = r.Access.String()
		} else if r.Unknown == 0 {
			p.USS, p.PSS = &r.USS, &r.PSS
		}
		doc.Processes = append(doc.Processes, p)
	}
	for _, c := range topRows(t.Columns, opt.Top) {
		doc.Components = append(doc.Components, pageComponent{c.Name, c.Kind.String(), c.Frames, c.Pages})
	}
	for _, f := range t.ByFlags {
		doc.ByFlags = append(doc.ByFlags, pageFlags{f.Flags, flagWords(f.Flags), f.Frames})
	}
	for _, m := range t.ByMapped {
		doc.ByMapped = append(doc.ByMapped, pageMapped(m))
	}
	return doc
}
