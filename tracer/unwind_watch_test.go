package tracer

import (
	"encoding/binary"
	"maps"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmapRecord is a PERF_RECORD_MMAP as the kernel writes it, name padded to 8 bytes, at 1000 ns and one for each PID.
func mmapRecord(pid uint32, name string) []byte {
	ne := binary.NativeEndian
	out := ne.AppendUint32(nil, unix.PERF_RECORD_MMAP)
	text := append([]byte(name), make([]byte, 8-len(name)%8)...)
	out = ne.AppendUint16(ne.AppendUint16(out, 2), uint16(perfMmapName+len(text)+perfTime))
	out = ne.AppendUint32(ne.AppendUint32(out, pid), pid)
	out = append(out, make([]byte, 24)...)
	return ne.AppendUint64(append(out, text...), 1000+uint64(pid))
}

func TestMapRecords(t *testing.T) {
	page := os.Getpagesize()
	r := mapRing{memory: make([]byte, page+256)}
	head := (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.memory[0]))
	put := func(records ...[]byte) {
		for _, record := range records {
			for _, b := range record {
				r.memory[page+int(head.Data_head&255)] = b
				head.Data_head++
			}
		}
	}
	lost := binary.NativeEndian.AppendUint32(nil, unix.PERF_RECORD_LOST)
	lost = append(binary.NativeEndian.AppendUint16(append(lost, 0, 0), 24), make([]byte, 16)...)
	for range 5 { // the records go around the ring's end
		put(mmapRecord(7, "/usr/lib/libz.so.1"), mmapRecord(8, "//anon"), mmapRecord(9, "[vdso]"))
		pids := map[int]uint64{}
		if more := r.drain(pids); more || !maps.Equal(pids, map[int]uint64{7: 1007}) {
			t.Fatalf("got %v, more %v, want process 7", pids, more)
		}
		put(lost, mmapRecord(5, "/memfd:code (deleted)"), mmapRecord(3, "/opt/a"))
		clear(pids)
		if more := r.drain(pids); !more || !maps.Equal(pids, map[int]uint64{3: 1003}) {
			t.Fatalf("got %v, more %v, want process 3 and more", pids, more)
		}
		if head.Data_head != head.Data_tail {
			t.Fatal("something is left in the ring")
		}
	}
	put([]byte{1, 0, 0, 0, 0, 0, 4, 0}) // shorter than its head
	if more := r.drain(map[int]uint64{}); !more || head.Data_head != head.Data_tail {
		t.Error("a record of 4 bytes was taken")
	}
}
