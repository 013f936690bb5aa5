package procfs

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/memtrace/memtrace/procfs/proctest"
	"github.com/memtrace/memtrace/testdata/costtest"
)

func FuzzParseStat(f *testing.F) {
	proctest.Seed(f, fixtures+"/*/*/stat")
	f.Add([]byte("1 () S"))
	f.Add([]byte(")1("))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		var st Stat
		if err := parseStat(data, &st); err == nil && !bytes.Contains(data, []byte("("+st.Comm+")")) {
			t.Errorf("name %q is not in %q", st.Comm, data)
		}
	})
}

func FuzzParseStatm(f *testing.F) {
	proctest.Seed(f, fixtures+"/*/*/statm")
	f.Add([]byte("18446744073709551615 1 1 1 1 1 1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		s, err := parseStatm(data, 4096)
		if err == nil && (s.Size%4096 != 0 || s.Resident%4096 != 0) {
			t.Errorf("%+v is not in whole pages", s)
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	proctest.Seed(f, fixtures+"/*/*/status")
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		if s, err := parseStatus(data); err == nil && (s.Tgid <= 0 || len(s.NSpid) > maxNSLevels) {
			t.Errorf("%+v", s)
		}
	})
}

// FuzzParseRollup also checks that both ways to read the columns agree.
func FuzzParseRollup(f *testing.F) {
	proctest.Seed(f, fixtures+"/*/*/smaps_rollup")
	for _, number := range []string{"99999999", "     1 2", "0000012:", "     -12", "\x20\x20\x20\x20\x20\x20\x200", "        ", "1       "} {
		f.Add([]byte("0-1 ---p [rollup]\nRss:            " + number + " kB\n"))
	}
	f.Add([]byte("\nRss:00000000000100000000 kB\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		m, err := parseRollup(data)
		if err == nil && m.Rss%1024 != 0 {
			t.Errorf("%+v", m)
		}
		_, lines, _ := bytes.Cut(data, []byte("\n"))
		rollupKeys.Store(nil)
		defer rollupKeys.Store(nil)
		want, wantErr := parseRollupLines(lines)
		if got, ok := parseColumns(lines); ok && (wantErr != nil || got != want) {
			t.Errorf("by columns %+v, line by line %+v, %v", got, want, wantErr)
		}
	})
}

// FuzzParseSmaps also checks that the text may come in pieces of any size,
// which takes every line the slow way.
func FuzzParseSmaps(f *testing.F) {
	proctest.Seed(f, fixtures+"/*/*/smaps")
	proctest.Seed(f, fixtures+"/*/*/maps")
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		r := new(vmaReader)
		var whole []string
		n, err := r.parse(bytes.NewReader(data), visitor{each: func(v *VMA) {
			if v.End <= v.Start {
				t.Errorf("mapping of no size: %+v", v)
			}
			whole = append(whole, fmt.Sprintf("%+v", *v))
		}})
		pieces := 0
		n2, err2 := r.parse(&oneByOne{data}, visitor{each: func(v *VMA) {
			if pieces >= len(whole) || whole[pieces] != fmt.Sprintf("%+v", *v) {
				t.Errorf("mapping %d differs when read in pieces: %+v", pieces, *v)
			}
			pieces++
		}})
		if n != n2 || (err == nil) != (err2 == nil) || pieces != len(whole) {
			t.Errorf("whole: %d, %v; in pieces: %d, %v", n, err, n2, err2)
		}
	})
}

type oneByOne struct{ data []byte }

func (o *oneByOne) Read(b []byte) (int, error) {
	if len(o.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, o.data[:1])
	o.data = o.data[n:]
	return n, nil
}

func FuzzParseCmdline(f *testing.F) {
	proctest.Seed(f, fixtures+"/*/*/cmdline")
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		if args := parseCmdline(data); len(args) > len(data)+1 {
			t.Errorf("%d arguments of %d bytes", len(args), len(data))
		}
	})
}

func FuzzParseNSLink(f *testing.F) {
	f.Add("pid:[4026531836]", "pid")
	f.Add("pid:[]", "pid")
	f.Fuzz(func(t *testing.T, link, kind string) {
		defer costtest.Bound(t)()
		if ino, err := parseNSLink(link, kind); err != nil && ino != 0 {
			t.Errorf("%d with %v", ino, err)
		}
	})
}

func FuzzParseSyscall(f *testing.F) {
	f.Add([]byte("running\n"))
	f.Add([]byte("-1 0x7ffc6d5bd728 0x7f70873bb503\n"))
	f.Add([]byte("230 0x0 0x0 0x7ffc6d5bd740 0x7ffc6d5bd780 0x0 0x0 0x7ffc6d5bd728 0x7f70873bb503\n"))
	f.Add([]byte(" "))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		if sp, ok, err := parseSyscall(data); ok && (err != nil || sp == 0) {
			t.Errorf("%q: %#x, %v", data, sp, err)
		}
	})
}
