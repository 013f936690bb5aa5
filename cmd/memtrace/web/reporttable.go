package web

import (
	"fmt"
	"net/http"

	"github.com/memtrace/memtrace/analyzer/report"
)

var siteColumns = []column{
	{"live_bytes", "Live", "bytes"}, {"live_count", "Blocks", "count"}, {"peak_live_bytes", "Peak", "bytes"}, {"resident_bytes", "Resident", "bytes"},
	{"untouched_bytes", "Untouched", "bytes"}, {"swapped_bytes", "Swapped", "bytes"}, {"alloc_bytes", "Allocated", "bytes"}, {"alloc_count", "Allocations", "count"},
	{"free_count", "Freed", "count"}, {"temporary_count", "Temporary", "count"}, {"faults", "Faults", "count"}, {"oldest_ns", "Oldest", "time"},
}

var groupColumns = append([]column{
	{"live_bytes", "Live", "bytes"}, {"live_count", "Blocks", "count"}, {"sites", "Sites", "count"}},
	append(siteColumns[3:11:11], siteColumns[11])...)

var sizeColumns = []column{{"alloc_count", "Allocations", "count"}, {"sites", "Sites", "count"}, {"size", "Up to", "bytes"}}

var processColumns = []column{
	{"rss", "RSS", "bytes"}, {"pss", "PSS", "bytes"}, {"uss", "USS", "bytes"}, {"swap", "Swap", "bytes"}, {"live_bytes", "Live heap", "bytes"}, {"live_count", "Blocks", "count"},
	{"peak_bytes", "Peak", "bytes"}, {"alloc_bytes", "Allocated", "bytes"}, {"alloc_count", "Allocations", "count"}, {"free_count", "Freed", "count"}, {"lost", "Events lost", "count"},
}

// reportTable makes a table of a Report.
func (s *Server) reportTable(r *http.Request, p place, doc *tableDoc) error {
	have, err := s.report(r, p)
	if err != nil {
		return err
	}
	doc.Command = p.reportCommand("report", "--format json")
	if have.SitesMore > 0 && doc.By != "process" {
		doc.Notes = append(doc.Notes, fmt.Sprintf("%d more call sites are not in this file", have.SitesMore))
	}
	switch doc.By {
	case report.BySite:
		doc.sites(have)
	case "process":
		doc.processes(have)
	default:
		doc.groups(have)
	}
	return nil
}

func keyColumn(by string) column { return column{by, by, "text"} }

func (d *tableDoc) sites(r *report.Report) {
	d.Columns = append([]column{keyColumn("function")}, siteColumns...)
	comms := commsOf(r)
	for i := range r.Sites {
		s := &r.Sites[i]
		row := tableRow{Key: s.Function, process: fmt.Sprintf("%s (%d)", comms[uint32(s.PID)], s.PID), frames: s.Stack}
		row.exact = []uint64{
			s.LiveBytes, s.LiveCount, s.PeakLiveBytes, s.ResidentBytes, s.UntouchedBytes, s.SwappedBytes, s.AllocBytes, s.AllocCount, s.FreeCount, s.TemporaryCount, s.Faults, s.OldestNS,
		}
		d.Rows = append(d.Rows, row)
	}
}

func (d *tableDoc) groups(r *report.Report) {
	own := *r
	own.Sites = append([]report.Site{}, r.Sites...)
	own.GroupBy(d.By, "live", 0)
	d.Columns = append([]column{keyColumn(d.By)}, groupColumns...)
	if d.By == report.BySize {
		d.Columns = append([]column{keyColumn(d.By)}, sizeColumns...)
	}
	for i := range own.Groups {
		g := &own.Groups[i]
		row := tableRow{Key: g.Key, exact: []uint64{
			g.LiveBytes, g.LiveCount, uint64(g.Sites), g.ResidentBytes, g.UntouchedBytes, g.SwappedBytes, g.AllocBytes, g.AllocCount, g.FreeCount, g.TemporaryCount, g.Faults, g.OldestNS,
		}}
		if d.By == report.BySize {
			row.exact = []uint64{g.AllocCount, uint64(g.Sites), g.Size}
		}
		d.Rows = append(d.Rows, row)
	}
}

func (d *tableDoc) processes(r *report.Report) {
	d.Columns = append([]column{keyColumn("process")}, processColumns...)
	for i := range r.Processes {
		p := &r.Processes[i]
		lost := uint64(0)
		if p.Loss != nil {
			lost = p.Loss.Events
		}
		d.Rows = append(d.Rows, tableRow{Key: fmt.Sprintf("%s (%d)", p.Comm, p.PID), exact: []uint64{
			p.Usage.RSS, p.Usage.PSS, p.Usage.USS, p.Usage.Swap, p.Heap.LiveBytes, p.Heap.LiveCount, p.Heap.PeakBytes, p.Heap.AllocBytes, p.Heap.AllocCount, p.Heap.FreeCount, lost,
		}})
	}
}
