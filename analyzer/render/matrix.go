package render

import (
	"fmt"
	"io"
	"strconv"

	"github.com/memtrace/memtrace/analyzer/matrix"
)

// Formats of the tables of a snapshot, beside Text and JSON.
const (
	CSV  Format = "csv"
	HTML Format = "html"
)

// MatrixFormats lists what WriteMatrix accepts.
func MatrixFormats() []string { return []string{string(Text), string(CSV), string(JSON), string(HTML)} }

// DiffFormats lists what WriteDiff accepts.
func DiffFormats() []string { return []string{string(Text), string(CSV), string(JSON)} }

// Tables lists the names of a snapshot's tables, as MatrixOptions.Table has one.
func Tables() []string { return []string{tableMatrix, tableProcesses, tableComponents, tablePages} }

const (
	tableMatrix     = "matrix"
	tableProcesses  = "processes"
	tableComponents = "components"
	tablePages      = "pages" // of a snapshot with pages, as text or JSON
)

// Unit is what a table's figures are in.
type Unit string

// Units lists the names of Unit: MB is 1,000,000 bytes, KiB and MiB are by 1024.
func Units() []string { return []string{"B", "KiB", "MiB", "kB", "MB", "pages"} }

// bytes is the size of the unit.
func (u Unit) bytes(page uint64) float64 {
	switch u {
	case "B":
		return 1
	case "MiB":
		return 1 << 20
	case "kB":
		return 1e3
	case "MB":
		return 1e6
	case "pages":
		return float64(page)
	}
	return 1 << 10
}

// format writes n bytes in the unit: whole numbers where they are whole, else
// with one digit after the point.
func (u Unit) format(n, page uint64) string {
	size := u.bytes(page)
	v := float64(n) / size
	switch u {
	case "B":
		return strconv.FormatUint(n, 10)
	case "MB", "MiB", "kB":
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	if whole := uint64(v); float64(whole)*size == float64(n) {
		return strconv.FormatUint(whole, 10)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// MatrixOptions say how to write the tables of a snapshot, or a Diff.
type MatrixOptions struct {
	Format Format // empty means Text
	Table  string // one of Tables; empty means the matrix; JSON and HTML have all of them
	By     matrix.By
	Unit   Unit // text and CSV; empty means KiB, and bytes in CSV
	Width  int  // text: columns of the terminal; 0 means no limit
	Top    int  // rows; 0 means all
	// Columns is how many components the matrix has; 0 means as many as fit,
	// and all of them in CSV.
	Columns int
	Color   bool
}

// WriteMatrix writes a snapshot's tables in opt.Format.
func WriteMatrix(w io.Writer, t *matrix.Table, opt MatrixOptions) error {
	var data []byte
	var err error
	switch opt.Format {
	case Text, "":
		data, err = matrixText(t, opt)
	case CSV:
		data, err = matrixCSV(t, opt)
	case JSON:
		data, err = matrixJSON(t, opt)
	case HTML:
		data, err = matrixHTML(t, opt)
	default:
		err = fmt.Errorf("unknown format %q (have %v)", opt.Format, MatrixFormats())
	}
	if err != nil {
		return fmt.Errorf("write matrix: %w", err)
	}
	if _, err = w.Write(data); err != nil {
		return fmt.Errorf("write matrix: %w", err)
	}
	return nil
}

// topRows cuts a list down to n; 0 means all.
func topRows[T any](list []T, n int) []T {
	if n <= 0 {
		return list
	}
	return list[:min(n, len(list))]
}
