package render

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer/matrix"
)

// WriteDiff writes what changed between two snapshots, as text, CSV or JSON.
func WriteDiff(w io.Writer, d *matrix.Diff, opt MatrixOptions) error {
	var data []byte
	var err error
	switch opt.Format {
	case Text, "":
		data = diffText(d, opt)
	case CSV:
		data = EncodeCSV(diffRows(d, opt))
	case JSON:
		data, err = encodeDocument(newDiffDocument(d, opt))
	default:
		err = fmt.Errorf("unknown format %q (have %v)", opt.Format, DiffFormats())
	}
	if err != nil {
		return fmt.Errorf("write diff: %w", err)
	}
	if _, err = w.Write(data); err != nil {
		return fmt.Errorf("write diff: %w", err)
	}
	return nil
}

// diffRows is the CSV: a row for each process in total, with an empty
// component, and one for each of its components that changed.
func diffRows(d *matrix.Diff, opt MatrixOptions) [][]string {
	unit, page := cmp.Or(opt.Unit, "B"), d.B.Machine.PageSize
	head := []string{"pid", "start_time", "comm", "state", "component", "kind"}
	for _, name := range []string{"rss", "pss", "uss", "swap"} {
		head = append(head, name+"_before", name+"_after", name+"_growth")
	}
	rows := [][]string{head}
	add := func(c *matrix.Change, component, kind string, f *matrix.Deltas) {
		row := []string{strconv.Itoa(c.PID), strconv.FormatUint(c.StartTime, 10), c.Process().Comm, string(c.State), component, kind}
		for _, delta := range []matrix.Delta{f.RSS, f.PSS, f.USS, f.Swap} {
			if c.State == matrix.Unknown {
				row = append(row, "", "", "")
				continue
			}
			row = append(row, unit.format(delta.Before, page), unit.format(delta.After, page),
				signedUnit(unit, delta.Growth(), page))
		}
		rows = append(rows, row)
	}
	changes := topRows(d.Processes, opt.Top)
	for i := range changes {
		c := &changes[i]
		add(c, "", "", &c.Deltas)
		for j := range c.Components {
			add(c, c.Components[j].Name, c.Components[j].Kind.String(), &c.Components[j].Deltas)
		}
	}
	return rows
}

// signedUnit writes a growth: "-12", "0", "34".
func signedUnit(unit Unit, n int64, page uint64) string {
	return strings.TrimPrefix(signed(n, func(v uint64) string { return unit.format(v, page) }), "+")
}
