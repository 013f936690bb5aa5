//go:build integration && !services

package machine

import "testing"

// checkIdle holds for a test VM, which does nothing else: less than a hundredth
// is unexplained, and what is mapped is what the processes have.
func checkIdle(t *testing.T, b *Books, s Sums) {
	t.Helper()
	if rest := b.Unexplained(); rest > int64(b.Total)/100 || rest < -int64(b.Total)/100 {
		t.Errorf("%d bytes are unexplained", rest)
	}
	if diff := int64(b.Mapped) - int64(s.PSS); diff > int64(b.Total)/100 || diff < -int64(b.Total)/100 {
		t.Errorf("%d bytes are mapped, the processes have %d", b.Mapped, s.PSS)
	}
}
