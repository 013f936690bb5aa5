package reach

import (
	"slices"
	"testing"
)

func TestLiveZones(t *testing.T) {
	for _, test := range []struct {
		z    zone
		want []zone
	}{
		{zone{0, 5}, []zone{{10, 20}, {30, 40}, {50, 60}}},
		{zone{20, 30}, []zone{{10, 20}, {30, 40}, {50, 60}}},
		{zone{10, 20}, []zone{{30, 40}, {50, 60}}},
		{zone{15, 20}, []zone{{10, 15}, {30, 40}, {50, 60}}},
		{zone{12, 18}, []zone{{10, 12}, {18, 20}, {30, 40}, {50, 60}}},
		{zone{15, 55}, []zone{{10, 15}, {55, 60}}},
		{zone{0, 100}, nil},
	} {
		m := marker{dead: []zone{{10, 20}, {30, 40}, {50, 60}}}
		if m.live(test.z); !slices.Equal(m.dead, test.want) {
			t.Errorf("without %v: %v, want %v", test.z, m.dead, test.want)
		}
	}
}
