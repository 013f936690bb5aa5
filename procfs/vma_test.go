package procfs

import (
	"errors"
	"strings"
	"testing"
)

func TestKinds(t *testing.T) {
	const anon = "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 "
	for _, test := range []struct {
		line string
		kind Kind
	}{
		{anon, KindAnon},
		{anon + "   [heap]", KindHeap},
		{anon + "   [stack]", KindStack},
		{anon + "   [stack:1234]", KindStack},
		{anon + "   [anon:glibc: malloc arena]", KindAnon},
		{"7f0000000000-7f0000001000 rw-s 00000000 00:01 77   [anon_shmem:pool]", KindShmem},
		{anon + "   [vdso]", KindVDSO},
		{anon + "   [vvar_vclock]", KindVDSO},
		{anon + "   [vsyscall]", KindOther},
		{anon + "   [uprobes]", KindOther},
		{"7f0000000000-7f0000001000 rw-s 00000000 00:01 1029 /dev/zero (deleted)", KindShmem},
		{"7f0000000000-7f0000001000 rw-p 00000000 00:05 4    /dev/zero", KindAnon},
		{"7f0000000000-7f0000001000 rw-s 00000000 00:01 9    /memfd:wl_shm (deleted)", KindShmem},
		{"7f0000000000-7f0000001000 rw-s 00000000 00:01 3    /SYSV00000000 (deleted)", KindShmem},
		{"7f0000000000-7f0000001000 rw-s 00000000 00:18 5    /dev/shm/ring", KindShmem},
		{"7f0000000000-7f0000200000 rw-p 00000000 00:0f 6    /anon_hugepage (deleted)", KindHugetlb},
		{"7f0000000000-7f0000001000 r-xp 00001000 fe:01 2 /usr/bin/cat", KindFile},
		{"7f0000000000-7f0000001000 r-xp 00001000 fe:01 2 /opt/a b (deleted)", KindFile},
		{"7f0000000000-7f0000001000 r-xp 00001000 fe:01 2 /dev/zeroes", KindFile},
		{"7f0000000000-7f0000001000 rw-s 00000000 00:0e 1063 anon_inode:[perf_event]", KindFile},
	} {
		var v VMA
		path, err := parseVMA([]byte(test.line), &v)
		if err != nil || v.Kind != test.kind {
			t.Errorf("%s: kind %s, %v; want %s", test.line, v.Kind, err, test.kind)
		}
		if len(path) > 0 && !strings.HasSuffix(test.line, " "+string(path)) {
			t.Errorf("%s: path %q", test.line, path)
		}
	}
}

func TestParseVMA(t *testing.T) {
	var v VMA
	path, err := parseVMA([]byte("7fc1a2b3c000-7fc1a2b3e000 rwxs 0000a000 fe:1f 247766                     /srv/a\\012b  c"), &v)
	if err != nil {
		t.Fatal(err)
	}
	if v.Start != 0x7fc1a2b3c000 || v.End != 0x7fc1a2b3e000 || v.Size() != 0x2000 || v.Perms != Read|Write|Exec|Shared ||
		v.Offset != 0xa000 || v.DevMajor != 0xfe || v.DevMinor != 0x1f || v.Inode != 247766 || string(path) != `/srv/a\012b  c` {
		t.Errorf("%+v, path %q", v, path)
	}
	for _, bad := range []string{
		"", "x", "1000", "1000-2000", "1000-2000 rw-p", "1000-2000 rw-p 0 00:00", "2000-1000 rw-p 0 00:00 0",
		"11112222333344445-21112222333344445 rw-p 0 00:00 0", "1000-2000 rw-p 0 00:00 x",
	} {
		if _, err := parseVMA([]byte(bad), &v); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestSmapsLinesAreChecked(t *testing.T) {
	const head = "1000-2000 rw-p 00000000 00:00 0 \n"
	for _, bad := range []string{
		"Rss: 4 kB\n",                                               // belongs to no mapping
		head + "Rss: x kB\n",                                        // no number
		head + "Rss: 18446744073709551615 kB\n",                     // more bytes than 64 bits
		head + "Rss: 18446744073709551616 kB\n",                     // more than 64 bits
		head + "Rss\n",                                              // no colon
		head + strings.Repeat("a", maxText+1) + "\n",                // no such line
		"1000-2000 rw-p 0 00:00 0 /" + strings.Repeat("a", maxText), // endless path
	} {
		r := new(vmaReader)
		if _, err := r.parse(strings.NewReader(bad), visitor{each: func(*VMA) {}}); !errors.Is(err, ErrFormat) {
			t.Errorf("%.60q: %v", bad, err)
		}
	}
}

func TestSmapsFields(t *testing.T) {
	const text = "1000-9000 rw-p 00000000 00:00 0 [anon:a: b]\n" +
		"Size:                 32 kB\nRss:                  28 kB\nPss:                  20 kB\nShared_Dirty:         8 kB\n" +
		"Private_Clean:         4 kB\nPrivate_Dirty:        16 kB\nAnonymous:            28 kB\nAnonHugePages:         0 kB\n" +
		"Swap:                  4 kB\nSwapPss:               2 kB\nLocked:                12 kB\nVmFlags: rd wr mr mw me ac lo gd sd gu\n" +
		"a000-b000 r--p 00000000 00:00 0 \nRss: 4 kB"
	var got []VMA
	r := new(vmaReader)
	n, err := r.parse(strings.NewReader(text), visitor{each: func(v *VMA) { got = append(got, *v) }})
	if err != nil || n != 2 || len(got) != 2 {
		t.Fatalf("%d mappings, %v", n, err)
	}
	want := Memory{Rss: 28 << 10, Pss: 20 << 10, SharedDirty: 8 << 10, PrivateClean: 4 << 10, PrivateDirty: 16 << 10,
		Anonymous: 28 << 10, Swap: 4 << 10, SwapPss: 2 << 10, Locked: 12 << 10}
	if got[0].Memory != want || got[0].Flags != FlagLocked|FlagGrowsDown|FlagGuard || got[0].USS() != 20<<10 {
		t.Errorf("%+v", got[0])
	}
	if got[1].Rss != 4<<10 || got[1].Flags != 0 || got[1].Swap != 0 {
		t.Errorf("values of one mapping leaked into the next: %+v", got[1])
	}
}
