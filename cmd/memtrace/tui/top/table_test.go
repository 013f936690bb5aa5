package top

import (
	"slices"
	"testing"
)

func sortedPIDs(t *testing.T, by string, reverse bool) []int {
	t.Helper()
	s := example()
	table := processTable(s, options{})
	var pids []int
	for _, row := range table.order(table.column(by), reverse) {
		pids = append(pids, table.ID(row).PID)
	}
	return pids
}

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		by      string
		reverse bool
		want    []int
	}{
		{"pss", false, []int{101, 102, 201, 202, 401, 301, 2}}, // 401 not read, 301 denied, 2 has none
		{"pss", true, []int{201, 202, 102, 101, 401, 301, 2}},
		{"rss", false, []int{401, 101, 102, 201, 202, 301, 2}},
		{"pid", false, []int{2, 101, 102, 201, 202, 301, 401}},
		{"pid", true, []int{401, 301, 202, 201, 102, 101, 2}},
		{"user", false, []int{401, 101, 102, 2, 301, 201, 202}},
		{"nothing", false, []int{101, 102, 201, 202, 301, 401, 2}},
	} {
		if got := sortedPIDs(t, c.by, c.reverse); !slices.Equal(got, c.want) {
			t.Errorf("by %s (reversed: %v): %v, want %v", c.by, c.reverse, got, c.want)
		}
	}
}

func TestEveryViewSortsByEveryColumn(t *testing.T) {
	s := full()
	for _, v := range views {
		table := v.table(s, options{})
		if table.Len == 0 {
			t.Errorf("view %s of the example is empty", v.view)
		}
		if table.column(v.sort) < 0 && !table.Fixed {
			t.Errorf("view %s has no column %q to be sorted by", v.view, v.sort)
		}
		for col, c := range table.Columns {
			order := table.order(col, false)
			slices.Sort(order)
			for i, row := range order {
				if i != row {
					t.Fatalf("view %s by %s: rows %v", v.view, c.Name, order)
				}
			}
			if c.Doc == "" {
				t.Errorf("view %s: column %s is not explained", v.view, c.Name)
			}
		}
	}
}
