package export

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

// parquetRow is a row of a Parquet file: a site, or a site of mappings. Its columns are
// those of CSV, with the place of the function in parts and the stack as a list.
type parquetRow struct {
	Site     *int64 `parquet:"site"` // null for mappings
	Process  *int64 `parquet:"process"`
	PID      int64  `parquet:"pid"`
	Comm     string `parquet:"comm,dict"`
	Exe      string `parquet:"exe,optional,dict"`
	Function string `parquet:"function,dict"`
	File     string `parquet:"file,optional,dict"`
	Line     int64  `parquet:"line,optional,dict"`
	Module   string `parquet:"module,optional,dict"`
	BuildID  string `parquet:"build_id,optional,dict"`
	parquetFigures
	Truncated bool           `parquet:"truncated"`
	Stack     []parquetFrame `parquet:"stack,list"` // innermost first
}

// parquetFigures are the kinds, by their columns.
type parquetFigures struct {
	LiveBytes      int64 `parquet:"live_bytes"`
	LiveCount      int64 `parquet:"live_count"`
	PeakBytes      int64 `parquet:"peak_bytes"`
	AllocatedBytes int64 `parquet:"allocated_bytes"`
	AllocatedCount int64 `parquet:"allocated_count"`
	FreedBytes     int64 `parquet:"freed_bytes"`
	FreedCount     int64 `parquet:"freed_count"`
	TemporaryCount int64 `parquet:"temporary_count"`
	LeakedBytes    int64 `parquet:"leaked_bytes"`
	LeakedCount    int64 `parquet:"leaked_count"`
	GrowingBytes   int64 `parquet:"growing_bytes"`
	ResidentBytes  int64 `parquet:"resident_bytes"`
	UntouchedBytes int64 `parquet:"untouched_bytes"`
	SwappedBytes   int64 `parquet:"swapped_bytes"`
	FaultsCount    int64 `parquet:"faults_count"`
	MappedBytes    int64 `parquet:"mapped_bytes"`
	MappedCount    int64 `parquet:"mapped_count"`
}

// parquetFrame is one function of a stack. What is not known is null.
type parquetFrame struct {
	Function string `parquet:"function,dict"`
	File     string `parquet:"file,optional,dict"`
	Line     int64  `parquet:"line,optional,dict"`
	Module   string `parquet:"module,optional,dict"`
	BuildID  string `parquet:"build_id,optional,dict"`
	Offset   int64  `parquet:"offset,dict"`
	Inlined  bool   `parquet:"inlined"`
}

// maxGroupFrames bounds what is held in memory until a row group is written, whatever the Report has.
const maxGroupFrames = 1 << 17

// writeParquet writes a row a site, and one for each site of mappings.
func writeParquet(w io.Writer, r *report.Report, opt Options) error {
	options := append(parquetMetadata(r, opt), parquet.Compression(&parquet.Zstd))
	options = append(options, parquet.NewSchema("sites", parquet.SchemaOf(parquetRow{})))
	out := parquet.NewGenericWriter[parquetRow](w, options...)
	stacks, frames, held := stacksOf(r), parquetFrames{}, 0
	for i := range stacks {
		row := frames.row(&stacks[i])
		if _, err := out.Write([]parquetRow{row}); err != nil {
			return fmt.Errorf("write a row of Parquet: %w", err)
		}
		if held += 1 + len(row.Stack); held < maxGroupFrames {
			continue
		}
		if err := out.Flush(); err != nil {
			return fmt.Errorf("write a row group of Parquet: %w", err)
		}
		held = 0
		clear(frames)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("end a Parquet file: %w", err)
	}
	return nil
}

// parquetMetadata are the key-value pairs of the file: what its figures are to be read with.
func parquetMetadata(r *report.Report, opt Options) []parquet.WriterOption {
	version := render.Clean(opt.Version)
	pairs := [][2]string{
		{"memtrace.version", version},
		{"memtrace.window_ns", strconv.FormatUint(r.WindowNS, 10)},
		{"memtrace.events_lost", strconv.FormatUint(r.Events.Lost, 10)},
		{"memtrace.notes", strings.Join(notes(r), "; ")},
	}
	if !opt.Made.IsZero() {
		pairs = append(pairs, [2]string{"memtrace.made", opt.Made.UTC().Format(time.RFC3339)})
	}
	if r.Sampling != nil && len(r.Sampling.Intervals) > 0 {
		pairs = append(pairs, [2]string{"memtrace.sample_intervals_bytes", intervals(r.Sampling.Intervals)})
	}
	out := []parquet.WriterOption{parquet.CreatedBy("memtrace", version, "")}
	for _, p := range pairs {
		out = append(out, parquet.KeyValueMetadata(p[0], p[1]))
	}
	return out
}

func intervals(all []uint64) string {
	var out []string
	for _, n := range all {
		out = append(out, strconv.FormatUint(n, 10))
	}
	return strings.Join(out, ",")
}

// parquetFrames are frames as they are written. Sites share frames, and cleaning names takes time.
type parquetFrames map[*report.Frame]*parquetFrame

func (known parquetFrames) of(f *report.Frame) *parquetFrame {
	out := known[f]
	if out == nil {
		out = &parquetFrame{
			Function: label(f), File: clip(f.File), Line: int64(max(f.Line, 0)), Module: clip(f.Module), BuildID: clip(f.BuildID),
			Offset: signed(f.Offset), Inlined: f.Inlined,
		}
		known[f] = out
	}
	return out
}

func (known parquetFrames) row(s *stack) parquetRow {
	row := parquetRow{PID: int64(s.pid), Comm: s.comm(), parquetFigures: s.figures(), Truncated: s.truncated}
	if !s.mapping {
		id := int64(s.id)
		row.Site = &id
	}
	if s.process != nil {
		id := int64(s.process.ID)
		row.Process, row.Exe = &id, clip(s.process.Exe)
	}
	if f := s.caller(); f != nil {
		at := known.of(f)
		row.Function, row.File, row.Line, row.Module, row.BuildID = at.Function, at.File, at.Line, at.Module, at.BuildID
	} else {
		steps := s.path(true)
		row.Function = steps[len(steps)-1].label
	}
	for _, f := range s.frames {
		row.Stack = append(row.Stack, *known.of(f))
	}
	return row
}

func (s *stack) figures() parquetFigures {
	bytes := func(k Kind) int64 { return signed(s.weights[k.index()].bytes) }
	count := func(k Kind) int64 { return signed(s.weights[k.index()].count) }
	return parquetFigures{
		LiveBytes: bytes(Live), LiveCount: count(Live), PeakBytes: bytes(Peak),
		AllocatedBytes: bytes(Allocated), AllocatedCount: count(Allocated), FreedBytes: bytes(Freed), FreedCount: count(Freed),
		TemporaryCount: count(Temporary), LeakedBytes: bytes(Leaked), LeakedCount: count(Leaked), GrowingBytes: bytes(Growing),
		ResidentBytes: bytes(Resident), UntouchedBytes: bytes(Untouched), SwappedBytes: bytes(Swapped), FaultsCount: count(Faults),
		MappedBytes: bytes(Mapped), MappedCount: count(Mapped),
	}
}
