package unwind

import (
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkRead makes the tables of a file, as happens when a process loads it.
func BenchmarkRead(b *testing.B) {
	for _, path := range binaries(b) {
		b.Run(filepath.Base(path), func(b *testing.B) {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			rows := 0
			for b.Loop() {
				file, err := Read(f)
				if err != nil {
					b.Fatal(err)
				}
				rows = 0
				for _, s := range file.Segments {
					if s.Table != nil {
						rows += len(s.Table.rows)
						s.Table.Encode(1, func(Rule) uint32 { return 1 })
					}
				}
			}
			b.ReportMetric(float64(rows), "rows")
		})
	}
}
