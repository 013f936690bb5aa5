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
			words := 0
			for b.Loop() {
				file, err := Read(f)
				if err != nil {
					b.Fatal(err)
				}
				words = 0
				for _, s := range file.Segments {
					if s.Table != nil {
						words += s.Table.Bytes() / 4
						s.Table.Encode(1, func(Rule) uint32 { return 1 })
					}
				}
			}
			b.ReportMetric(float64(words), "words")
		})
	}
}
