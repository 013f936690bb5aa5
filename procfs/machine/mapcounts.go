package machine

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/memtrace/memtrace/procfs/internal/text"
)

// MapCounts says how a kernel counts who maps a page, on which PSS and USS rest.
type MapCounts uint8

const (
	// MapCountsUnknown: the kernel is new enough to average, and its
	// configuration is nowhere to be read.
	MapCountsUnknown MapCounts = iota
	// MapCountsExact: for each page by itself.
	MapCountsExact
	// MapCountsAveraged: CONFIG_NO_PAGE_MAPCOUNT (Linux 6.15 on). For large
	// folios only the sum is counted: PSS divides by the folio's average, and
	// USS holds a page only if no other process maps any part of its folio.
	MapCountsAveraged
)

// String says it in words.
func (m MapCounts) String() string {
	switch m {
	case MapCountsExact:
		return "exact"
	case MapCountsAveraged:
		return "averaged over large folios"
	}
	return "exact or averaged: the kernel's configuration is not readable"
}

// Estimated reports whether PSS and USS must be marked as estimates.
func (m MapCounts) Estimated() bool { return m != MapCountsExact }

// DetectMapCounts finds out for the running kernel: by its version, then by its
// configuration, in proc/config.gz, boot/config-RELEASE or
// lib/modules/RELEASE/config below root, which is "/" as a rule.
func DetectMapCounts(root string) (MapCounts, error) {
	data, err := os.ReadFile(filepath.Join(root, "proc/sys/kernel/osrelease"))
	if err != nil {
		return MapCountsUnknown, fmt.Errorf("find out how pages' users are counted: %w", err)
	}
	release := string(bytes.TrimSpace(data))
	if older(release, 6, 15) {
		return MapCountsExact, nil
	}
	for _, name := range []string{"proc/config.gz", "boot/config-" + release, "lib/modules/" + release + "/config"} {
		if counts, ok := fromConfig(filepath.Join(root, name)); ok {
			return counts, nil
		}
	}
	return MapCountsUnknown, nil
}

// older reports whether a release such as "6.12.9-amd64" is older than major.minor.
func older(release string, major, minor uint64) bool {
	a, rest, ok := text.Decimal([]byte(release))
	if !ok || len(rest) == 0 || rest[0] != '.' {
		return false
	}
	b, _, ok := text.Decimal(rest[1:])
	return ok && (a < major || a == major && b < minor)
}

// maxConfig bounds a kernel's configuration, which has about 300 kB.
const maxConfig = 8 << 20

// fromConfig looks into a kernel's configuration; ok is false where it is not readable.
func fromConfig(name string) (counts MapCounts, ok bool) {
	f, err := os.Open(name)
	if err != nil {
		return MapCountsUnknown, false
	}
	defer func() { _ = f.Close() }()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return MapCountsUnknown, false
		}
	}
	counts, err = parseConfig(io.LimitReader(r, maxConfig))
	return counts, err == nil
}

// parseConfig looks for the line of the option; a configuration without any
// option is none.
func parseConfig(r io.Reader) (MapCounts, error) {
	counts, lines := MapCountsExact, 0
	s := bufio.NewScanner(r)
	for s.Scan() {
		line := s.Text()
		if strings.HasPrefix(line, "CONFIG_") {
			lines++
		}
		if line == "CONFIG_NO_PAGE_MAPCOUNT=y" {
			counts = MapCountsAveraged
		}
	}
	if err := s.Err(); err != nil {
		return MapCountsUnknown, fmt.Errorf("read configuration: %w", err)
	}
	if lines == 0 {
		return MapCountsUnknown, errors.New("read configuration: it has no option")
	}
	return counts, nil
}
