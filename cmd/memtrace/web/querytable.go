package web

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/memtrace/memtrace/analyzer/query"
)

var figureColumns = []column{
	{"bytes", "Bytes", "bytes"}, {"count", "Blocks", "count"}, {"live_bytes", "Live", "bytes"}, {"live_count", "Live blocks", "count"}, {"freed_count", "Freed", "count"},
	{"temporary_count", "Temporary", "count"}, {"leaked_bytes", "Leaked", "bytes"}, {"leaked_count", "Leaked blocks", "count"},
	{"mean_lifetime_ns", "Mean lifetime", "time"}, {"max_lifetime_ns", "Longest", "time"}, {"first_born_ns", "First", "time"}, {"last_born_ns", "Last", "time"},
}

var blockColumns = []column{
	{"function", "function", "text"}, {"addr", "Address", "text"}, {"leak", "Leak", "text"}, {"ended_by", "Ended by", "text"},
	{"size", "Size", "bytes"}, {"born_ns", "Born", "time"}, {"lifetime_ns", "Lifetime", "time"}, {"pid", "PID", "number"}, {"thread", "Thread", "number"}, {"free_thread", "Freed by", "number"},
}

func figuresOf(f *query.Figures) []uint64 {
	return []uint64{
		f.Bytes, f.Count, f.LiveBytes, f.LiveCount, f.FreedCount, f.TemporaryCount, f.LeakedBytes, f.LeakedCount, f.MeanLifetimeNS, f.MaxLifetimeNS, f.FirstBornNS, f.LastBornNS,
	}
}

// askedTable makes a table of the blocks that a query finds.
func (s *Server) askedTable(r *http.Request, p place, filter string, doc *tableDoc) error {
	res, err := s.query(r, p, filter, doc.By)
	if err != nil {
		return err
	}
	doc.Notes, doc.Command = append(doc.Notes, res.Notes...), p.queryCommand(filter, doc.By)
	if doc.By == query.None {
		doc.blocks(res)
		return nil
	}
	key := doc.By
	if key == "site" {
		key = "function"
	}
	doc.Columns = append([]column{keyColumn(key)}, figureColumns...)
	for i := range res.Groups {
		g := &res.Groups[i]
		row := tableRow{Key: g.Key, exact: figuresOf(&g.Figures)}
		if len(g.Stack) > 0 {
			row.process, row.frames = fmt.Sprintf("%s (%d)", g.Comm, g.PID), g.Stack
		}
		doc.Rows = append(doc.Rows, row)
	}
	if res.NoRoom != nil {
		doc.Rows = append(doc.Rows, tableRow{Key: "[found no room]", exact: figuresOf(res.NoRoom)})
	}
	return nil
}

// blocks lists single blocks.
func (d *tableDoc) blocks(res *query.Result) {
	d.Columns = blockColumns
	for i := range res.Blocks {
		b := &res.Blocks[i]
		d.Rows = append(d.Rows, tableRow{
			Key: b.Function, Texts: []string{fmt.Sprintf("0x%x", b.Addr), b.Leak, b.EndedBy},
			exact: []uint64{b.Size, b.BornNS, b.LifetimeNS, uint64(b.PID), uint64(b.Thread), uint64(b.FreeThread)},
		})
	}
	if res.Omitted > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("%d more blocks, smaller ones, are not listed: the filter can find them", res.Omitted))
	}
}

// argument is the file at its time, as memtrace's commands take it.
func (p *place) argument() string {
	if p.whole {
		return quoted(p.file.name)
	}
	return quoted(p.file.name + "@" + time.Duration(p.at).String())
}

// reportCommand is a command that gives the figures of a Report.
func (p *place) reportCommand(name, options string) string {
	return "memtrace " + name + " " + p.argument() + " " + options
}

// queryCommand is a command that gives the figures of a query.
func (p *place) queryCommand(filter, by string) string {
	out := "memtrace query " + quoted(p.file.name)
	if text := p.expression(filter); text != "" {
		out += " " + quoted(text)
	}
	out += " --by " + by
	switch {
	case p.span:
		out += " --from " + time.Duration(p.from).String() + " --to " + time.Duration(p.to).String()
	case !p.whole:
		out += " --at " + time.Duration(p.at).String()
	}
	return out
}

// quoted is a word of a shell.
func quoted(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./@:+,%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
