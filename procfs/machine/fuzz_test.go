package machine

import (
	"bytes"
	"testing"

	"github.com/memtrace/memtrace/procfs/proctest"
	"github.com/memtrace/memtrace/testdata/costtest"
)

func FuzzParseZoneinfo(f *testing.F) {
	proctest.Seed(f, "../../testdata/kernels/*/proc/zoneinfo")
	f.Add([]byte("Node 0, zone x\n  per-node stats\n      a 1"))
	f.Add([]byte("Node 0, zone x\n  per-node stats\n      "))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		nodes, err := parseZoneinfo(data, nil)
		if err != nil {
			return
		}
		for _, n := range nodes {
			if len(n.Zones) == 0 || n.ID < 0 || n.ID >= maxNodes {
				t.Errorf("%+v", n)
			}
		}
		again, err := parseZoneinfo(data, nodes)
		if err != nil || len(again) != len(nodes) {
			t.Errorf("again: %d nodes, not %d: %v", len(again), len(nodes), err)
		}
	})
}

func FuzzParseSlabinfo(f *testing.F) {
	proctest.Seed(f, "../../testdata/kernels/*/proc/slabinfo")
	f.Add([]byte("slabinfo - version: 2.1\na 1 1 1 1 18446744073709551615 : slabdata 1 18446744073709551615 0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		slabs, err := parseSlabinfo(data, nil, 4096)
		if err == nil && len(slabs) > bytes.Count(data, []byte("\n"))+1 {
			t.Errorf("%d caches of %q", len(slabs), data)
		}
		for _, s := range slabs {
			if s.Name == "" || s.Bytes%4096 != 0 {
				t.Errorf("%+v", s)
			}
		}
	})
}

func FuzzStripNode(f *testing.F) {
	proctest.Seed(f, "../../testdata/kernels/*/sys/devices/system/node/node0/meminfo")
	f.Add([]byte("Node 0 a: 1 kB"))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		if out := stripNode(bytes.Clone(data)); len(out) > len(data) {
			t.Errorf("%q became %q", data, out)
		}
	})
}

func FuzzParseList(f *testing.F) {
	f.Add([]byte("0-2,5"))
	f.Add([]byte("0-18446744073709551615"))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		list, err := parseList(data, 1024)
		if len(list) > 2*1024 || err != nil && list != nil {
			t.Errorf("%d numbers, %v", len(list), err)
		}
		for _, v := range list {
			if v < 0 || v >= 1024 {
				t.Error(v)
			}
		}
	})
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("CONFIG_A=y\nCONFIG_NO_PAGE_MAPCOUNT=y\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		if counts, err := parseConfig(bytes.NewReader(data)); err != nil && counts != MapCountsUnknown {
			t.Errorf("%v with %v", counts, err)
		}
	})
}

func FuzzOlder(f *testing.F) {
	f.Add("6.12.9-amd64")
	f.Add("6.")
	f.Fuzz(func(t *testing.T, release string) {
		defer costtest.Bound(t)()
		if older(release, 0, 0) {
			t.Errorf("%q is older than 0.0", release)
		}
	})
}
