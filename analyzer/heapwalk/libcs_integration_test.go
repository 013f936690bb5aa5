//go:build integration

package heapwalk

import (
	"path/filepath"
	"testing"
)

// TestTruthOfOtherLibcs walks the heap of the same program under the C libraries
// of other Debian releases: 2.31, 2.41 and the newest.
func TestTruthOfOtherLibcs(t *testing.T) {
	suites := []string{"bullseye", "trixie", "sid"}
	dir := t.TempDir()
	compile(t, "../../testdata/libc/fetch-libcs", append([]string{programs + "/heap_truth.c", dir}, suites...)...)
	for _, suite := range suites {
		for name, tunables := range map[string]string{
			"default":    "",
			"no_tcache":  "glibc.malloc.tcache_count=0",
			"big_tcache": "glibc.malloc.tcache_count=100:glibc.malloc.tcache_max=1048576",
			"all_mmap":   "glibc.malloc.mmap_threshold=4096",
			"huge_pages": "glibc.malloc.hugetlb=1",
		} {
			t.Run(suite+"/"+name, func(t *testing.T) {
				c := startTruth(t, filepath.Join(dir, "heap_truth."+suite), []string{"GLIBC_TUNABLES=" + tunables})
				c.check(t, walk(t, c))
				// With these, freed blocks with a mapping of their own may pass for live: they are cached, or
				// another one's header is at their place.
				if name != "big_tcache" && name != "all_mmap" {
					c.judge(t)
				}
				r, err := Check(t.Context(), c.process, CheckOptions{})
				if err != nil {
					t.Fatal(err)
				}
				c.checkLost(t, r)
			})
		}
	}
}
