package tracer

import "testing"

func TestHashPowers(t *testing.T) {
	powers := hashPowers()
	if powers[memoOrigin] != 1 {
		t.Errorf("the power 0 is %d", powers[memoOrigin])
	}
	for i := range powers[1:] {
		if powers[i]*hashStep != powers[i+1] {
			t.Errorf("at %d: %#x times the step is not %#x", i-memoOrigin, powers[i], powers[i+1])
		}
	}
}
