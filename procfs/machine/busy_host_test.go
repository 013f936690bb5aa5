//go:build integration && services

package machine

import "testing"

// checkIdle asks little of a machine that works meanwhile, and may have drivers
// that keep pages without counting them.
func checkIdle(t *testing.T, b *Books, _ Sums) {
	t.Helper()
	if rest := b.Unexplained(); rest > int64(b.Total)/10 || rest < -int64(b.Total)/100 {
		t.Errorf("%d bytes are unexplained", rest)
	}
}
