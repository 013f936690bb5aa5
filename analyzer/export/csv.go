package export

import (
	"io"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

// writeCSV writes a row a site, and one for each site of mappings.
func writeCSV(w io.Writer, r *report.Report, _ Options) error {
	header := []string{"site", "pid", "comm", "function", "source", "module", "build_id"}
	for _, k := range kinds {
		if k.unit == bytesUnit {
			header = append(header, string(k.kind)+"_bytes")
		}
		if hasCount(k.kind) {
			header = append(header, string(k.kind)+"_count")
		}
	}
	rows := [][]string{append(header, "stack")}
	stacks := stacksOf(r)
	for i := range stacks {
		rows = append(rows, stacks[i].row())
	}
	_, err := w.Write(render.EncodeCSV(rows))
	return err
}

// hasCount reports whether a number of things is known of a kind.
func hasCount(k Kind) bool {
	switch k {
	case Peak, Resident, Untouched, Swapped, Growing:
		return false
	}
	return true
}

// caller is the frame that a site is named after: the first outside of the allocator.
func (s *stack) caller() *report.Frame {
	for _, f := range s.frames {
		if f.Function == s.name {
			return f
		}
	}
	if len(s.frames) > 0 {
		return s.frames[0]
	}
	return nil
}

func (s *stack) row() []string {
	steps := s.path(true)
	row := []string{strconv.Itoa(s.id), strconv.Itoa(s.pid), s.comm(), steps[len(steps)-1].label, "", "", ""}
	if s.mapping {
		row[0] = ""
	}
	if f := s.caller(); f != nil {
		copy(row[3:], []string{label(f), source(f), clip(f.Module), clip(f.BuildID)})
	}
	for i, k := range kinds {
		if k.unit == bytesUnit {
			row = append(row, strconv.FormatUint(s.weights[i].bytes, 10))
		}
		switch {
		case k.kind == Temporary && s.process != nil && s.process.FreeWalk != nil:
			row = append(row, "") // not known without a probe on free
		case hasCount(k.kind):
			row = append(row, strconv.FormatUint(s.weights[i].count, 10))
		}
	}
	names := make([]string, 0, len(s.frames))
	for _, f := range s.frames {
		names = append(names, label(f))
	}
	return append(row, strings.Join(names, " < "))
}
