package unwind

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"slices"
	"testing"

	"github.com/memtrace/memtrace/testdata/costtest"
)

// sourceOf opens a file of this machine.
func sourceOf(t testing.TB, path string) *Source {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := Open(f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// byKind gives each rule a number that says what it is.
func byKind(r Rule) uint32 {
	return uint32(r.Kind) | uint32(r.Reg)<<4 | uint32(r.FromFP)<<8 | uint32(r.CFA)<<16 ^ uint32(r.Saved[0])<<5
}

func TestPackedTablesAreTheSame(t *testing.T) {
	for _, path := range binaries(t) {
		s := sourceOf(t, path)
		built, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Unpack(built.Pack(s.Key()), s.Key())
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if got.Source != built.Source || got.Bad != built.Bad || len(got.Segments) != len(built.Segments) {
			t.Fatalf("%s: %d bytes, %d bad, %d segments", path, got.Source, got.Bad, len(got.Segments))
		}
		for i, want := range built.Segments {
			have := got.Segments[i]
			if have.Offset != want.Offset || have.Address != want.Address || have.Size != want.Size || (have.Table == nil) != (want.Table == nil) {
				t.Errorf("%s: segment %+v, want %+v", path, have, want)
			}
			if want.Table != nil && !slices.Equal(have.Table.Encode(3, byKind), want.Table.Encode(3, byKind)) {
				t.Errorf("%s: another table", path)
			}
		}
	}
}

func TestKeyTellsSourcesApart(t *testing.T) {
	seen := map[[32]byte]string{}
	for _, path := range binaries(t) {
		s := sourceOf(t, path)
		key := s.Key()
		if other := seen[key]; other != "" || key != sourceOf(t, path).Key() {
			t.Errorf("%s has the key of %s, or not its own", path, other)
		}
		seen[key] = path
		s.sections[0].data = bytes.Clone(s.sections[0].data)
		s.sections[0].data[100] ^= 1
		if s.Key() == key {
			t.Errorf("%s: a changed byte changes no key", path)
		}
	}
}

func TestUnpackRefusesDamage(t *testing.T) {
	s := sourceOf(t, binaries(t)[2])
	built, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	key := s.Key()
	data := built.Pack(key)
	for at := 0; at < len(data); at += 1 + at/8 {
		bad := bytes.Clone(data)
		bad[at] ^= 0x40
		if _, err := Unpack(bad, key); !errors.Is(err, errPacked) {
			t.Errorf("a wrong byte at %d: %v", at, err)
		}
		if _, err := Unpack(data[:at], key); !errors.Is(err, errPacked) {
			t.Errorf("the first %d bytes: %v", at, err)
		}
	}
}

// FuzzUnpack reads arbitrary bytes as packed tables whose checksum is right.
func FuzzUnpack(f *testing.F) {
	s := sourceOf(f, binaries(f)[2])
	built, err := s.Build()
	if err != nil {
		f.Fatal(err)
	}
	key := s.Key()
	f.Add(built.Pack(key)[packedHead:])
	head := built.Pack(key)[:packedHead]
	f.Fuzz(func(t *testing.T, body []byte) {
		defer costtest.Bound(t)()
		data := append(bytes.Clone(head), body...)
		binary.LittleEndian.PutUint32(data[packedHead-4:], crc32.Checksum(body, castagnoli))
		file, err := Unpack(data, key)
		if err != nil {
			return
		}
		for _, s := range file.Segments {
			if s.Table == nil {
				continue
			}
			words := s.Table.Encode(1, byKind)
			for offset := uint64(0); offset < s.Table.Text.End-s.Table.Text.Start && offset < 1<<20; offset += 97 {
				Lookup(words, offset)
			}
		}
	})
}
