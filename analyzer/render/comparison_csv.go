package render

import (
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer/compare"
)

// comparisonRows is the CSV: a row for each site or group, and one for those that --top leaves
// out. A column adds up to the total.
func comparisonRows(d *compare.Diff, top int) [][]string {
	head := []string{"key", "state", "function", "source", "module"}
	for _, unit := range comparedUnits(d) {
		for _, name := range []string{"before", "after", "change", "grown", "shrunk", "before_se", "after_se"} {
			head = append(head, unit+"_"+name)
		}
	}
	out := [][]string{append(head, "sites_before", "sites_after", "stack")}
	rows, rest := d.First(d.Rows, top)
	for i := range rows {
		out = append(out, comparisonRow(d, &rows[i]))
	}
	if rest.Rows > 0 {
		row := []string{"[left out by --top: " + strconv.Itoa(rest.Rows) + " rows]", "", "", "", ""}
		out = append(out, append(append(row, comparedNumbersOf(d, &rest.Sum)...), "", "", ""))
	}
	return out
}

func comparedUnits(d *compare.Diff) (out []string) {
	if d.Figure.Bytes {
		out = append(out, "bytes")
	}
	if d.Figure.Count {
		out = append(out, "count")
	}
	return out
}

func comparisonRow(d *compare.Diff, r *compare.Row) []string {
	row := []string{r.Key, string(r.State), "", "", ""}
	var stack []string
	if r.Site != nil {
		row[2], row[3] = siteName(r.Site), comparedSource(r)
		if f := siteFrame(r.Site); f != nil {
			row[4] = f.Module
		}
		for _, f := range r.Site.Stack {
			stack = append(stack, frameName(f))
		}
	}
	row = append(row, comparedNumbersOf(d, &r.Sum)...)
	return append(row, strconv.Itoa(r.Sites[0]), strconv.Itoa(r.Sites[1]), strings.Join(stack, " < "))
}

func comparedNumbersOf(d *compare.Diff, s *compare.Sum) (out []string) {
	add := func(of *compare.Delta) {
		for i, n := range []uint64{of.Before, of.After, 0, of.Grown, of.Shrunk, of.BeforeSE, of.AfterSE} {
			if i == 2 {
				out = append(out, strconv.FormatInt(of.Change(), 10))
			} else {
				out = append(out, strconv.FormatUint(n, 10))
			}
		}
	}
	if d.Figure.Bytes {
		add(&s.Bytes)
	}
	if d.Figure.Count {
		add(&s.Count)
	}
	return out
}
