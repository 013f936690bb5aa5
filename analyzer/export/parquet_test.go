package export

import (
	"bytes"
	"encoding/csv"
	"io"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/memtrace/memtrace/analyzer/report"
)

// openParquet reads what was written as readers do that know nothing of it but the file.
func openParquet(t testing.TB, data []byte) *parquet.File {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// parquetRows are the rows by the names that the file gives its columns.
func parquetRows(t testing.TB, data []byte) (out []map[string]any) {
	t.Helper()
	f := openParquet(t, data)
	r := parquet.NewReader(f, f.Schema())
	defer func() { _ = r.Close() }()
	for {
		row := make(map[string]any)
		if err := r.Read(&row); err == io.EOF {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
}

func parquetSums(rows []map[string]any) map[string]uint64 {
	got := make(map[string]uint64)
	for _, row := range rows {
		for name, v := range row {
			if n, ok := v.(int64); ok && (strings.HasSuffix(name, "_bytes") || strings.HasSuffix(name, "_count")) {
				got[name] += uint64(n)
			}
		}
	}
	return got
}

func TestParquetHasEveryKind(t *testing.T) {
	rows := parquetRows(t, write(t, shop(), Options{Format: Parquet}))
	got := parquetSums(rows)
	for kind, want := range sums {
		name := string(kind) + "_bytes"
		if kind.counts() {
			name = string(kind) + "_count"
		}
		if n, ok := got[name]; !ok || n != want {
			t.Errorf("%s: %d, want %d", name, n, want)
		}
	}
	if got["live_count"] != 4 || got["allocated_count"] != 11 || got["leaked_count"] != 2 || got["mapped_count"] != 2 {
		t.Errorf("counts %v", got)
	}
	if len(rows) != 3 || rows[1]["site"] != int64(2) || rows[2]["site"] != nil || rows[0]["function"] != "sell" || rows[0]["line"] != int64(1) {
		t.Errorf("%v", rows)
	}
}

// TestParquetHasCSVsColumns: what is a column of the one is one of the other, with the same figures.
func TestParquetHasCSVsColumns(t *testing.T) {
	r := fixture(t, "service")
	table, err := csv.NewReader(bytes.NewReader(write(t, r, Options{Format: CSV}))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]uint64)
	for i, name := range table[0] {
		for _, row := range table[1:] {
			if !strings.HasSuffix(name, "_bytes") && !strings.HasSuffix(name, "_count") {
				break
			}
			n, err := strconv.ParseUint(row[i], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			want[name] += n
		}
	}
	if got := parquetSums(parquetRows(t, write(t, r, Options{Format: Parquet}))); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestParquetKeepsStacks(t *testing.T) {
	r := shop()
	r.Sites[0].Stack[1] = &report.Frame{Function: "0x10", Offset: 16}
	data := write(t, r, Options{Format: Parquet})
	rows, err := parquet.Read[parquetRow](bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	want := []parquetFrame{
		{Function: "sell", File: "/src/sell.c", Line: 1, Module: "/bin/shop", BuildID: "ab12", Offset: 0x1000, Inlined: true},
		{Function: "0x10", Offset: 16},
	}
	if !reflect.DeepEqual(rows[0].Stack, want) || len(rows[1].Stack) != 3 || rows[0].PID != 7 || *rows[0].Process != 1 || rows[0].Exe != "/bin/shop" {
		t.Errorf("%+v", rows)
	}
}

func TestParquetTellsOfItself(t *testing.T) {
	r := shop()
	r.Sampling, r.Events.Lost, r.SitesMore = &report.Sampling{Intervals: []uint64{512, 4096}}, 1234, 3
	f := openParquet(t, write(t, r, Options{Format: Parquet, Version: "1.2", Made: time.Unix(1e9, 0)}))
	for key, want := range map[string]string{
		"memtrace.version": "1.2", "memtrace.made": "2001-09-09T01:46:40Z", "memtrace.window_ns": "2000000000",
		"memtrace.sample_intervals_bytes": "512,4096", "memtrace.events_lost": "1234",
		"memtrace.notes": "3 sites are left out (--top 0 saves all); estimated by a sample; 1,234 events were lost",
	} {
		if got, _ := f.Lookup(key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if by := f.Metadata().CreatedBy; !strings.HasPrefix(by, "memtrace version 1.2") {
		t.Errorf("created by %q", by)
	}
	if _, ok := openParquet(t, write(t, shop(), Options{Format: Parquet})).Lookup("memtrace.made"); ok {
		t.Error("a time that is not known is there")
	}
}

func TestParquetOfNothing(t *testing.T) {
	f := openParquet(t, write(t, &report.Report{}, Options{Format: Parquet}))
	if f.NumRows() != 0 || len(f.Schema().Fields()) != 29 {
		t.Errorf("%d rows, %d columns", f.NumRows(), len(f.Schema().Fields()))
	}
}

// parquetTexts calls f for each text of a value read from a file.
func parquetTexts(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []byte:
		f(string(v))
	case []any:
		for _, e := range v {
			parquetTexts(e, f)
		}
	case map[string]any:
		for _, e := range v {
			parquetTexts(e, f)
		}
	}
}

func TestParquetOfHostileNames(t *testing.T) {
	reports := hostile(t)
	long := shop()
	long.Sites[0].Stack[0].Function, long.Sites[1].Stack[0].File = strings.Repeat("\x00", 1<<20), strings.Repeat("é", 1<<20)
	for i, r := range append(reports, long) {
		texts := 0
		for _, row := range parquetRows(t, write(t, r, Options{Format: Parquet, Version: attack})) {
			parquetTexts(map[string]any(row), func(s string) {
				texts++
				if !utf8.ValidString(s) || strings.ContainsFunc(s, func(c rune) bool { return unicode.IsControl(c) || c == '\u202e' }) {
					t.Errorf("report %d has %.100q", i, s)
				}
				if len(s) > 4*maxName+8 {
					t.Errorf("report %d has a name of %d bytes", i, len(s))
				}
			})
		}
		if texts == 0 && len(r.Sites) > 0 {
			t.Errorf("report %d: no text was looked at", i)
		}
	}
	rows := parquetRows(t, write(t, reports[0], Options{Format: Parquet}))
	if rows[0]["live_bytes"] != int64(1<<63-1) || rows[2]["pid"] != int64(-1) || rows[2]["process"] != nil {
		t.Errorf("%v", rows)
	}
}

// TestParquetWritesInParts: what is held in memory is bounded by frames, and nothing is lost between two parts.
func TestParquetWritesInParts(t *testing.T) {
	r := large(3 * maxGroupFrames / 17)
	var want uint64
	for i := range r.Sites {
		want += r.Sites[i].LiveBytes
	}
	data := write(t, r, Options{Format: Parquet})
	f := openParquet(t, data)
	for i, g := range f.RowGroups() {
		if g.NumRows()*17 > maxGroupFrames+17 {
			t.Errorf("part %d has %d rows", i, g.NumRows())
		}
	}
	rows, err := parquet.Read[parquetRow](bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var got uint64
	for i := range rows {
		got += uint64(rows[i].LiveBytes)
		if i < len(r.Sites) && (len(rows[i].Stack) != 16 || rows[i].Function != r.Sites[i].Function) {
			t.Fatalf("row %d: %+v", i, rows[i])
		}
	}
	if len(f.RowGroups()) < 3 || got != want || len(rows) != len(r.Sites)+1 {
		t.Errorf("%d parts, %d rows, %d bytes, want %d", len(f.RowGroups()), len(rows), got, want)
	}
}
