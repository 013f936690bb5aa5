package blocks

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

// The parts of a processed profile that say what was allocated, by src/types/profile.ts.
type firefoxFile struct {
	Meta struct {
		Version int     `json:"preprocessedProfileVersion"`
		Started float64 `json:"profilingStartTime"`
		Ended   float64 `json:"profilingEndTime"`
		Extra   []struct {
			Entries []struct{ Value string }
		}
	}
	Libs     []struct{ Path, CodeID string }
	Counters []struct {
		Name, PID       string
		MainThreadIndex int
		Samples         struct {
			Time   []float64
			Count  []int64
			Length int
		}
	}
	Shared struct {
		StringArray []string
		StackTable  struct {
			Frame  []int
			Prefix []*int
			Length int
		}
		FrameTable map[string]json.RawMessage
		FuncTable  map[string]json.RawMessage
	}
	Threads []struct {
		Name, PID         string
		NativeAllocations struct {
			Time          []float64
			Weight        []int64
			WeightType    string
			Stack         []*int
			MemoryAddress []uint64
			ThreadID      []uint32
			Length        int
		}
	}
}

func readFirefox(t *testing.T, text []byte) *firefoxFile {
	t.Helper()
	f := new(firefoxFile)
	if err := json.Unmarshal(text, f); err != nil {
		t.Fatal(err)
	}
	frames, funcs := ints(t, f.Shared.FrameTable["func"]), ints(t, f.Shared.FuncTable["name"])
	st := f.Shared.StackTable
	if len(st.Frame) != st.Length || len(st.Prefix) != st.Length || f.Meta.Version != firefoxVersion {
		t.Errorf("a table of %d stacks, version %d", st.Length, f.Meta.Version)
	}
	for i, prefix := range st.Prefix {
		if prefix != nil && *prefix >= i || st.Frame[i] >= len(frames) {
			t.Fatalf("stack %d: prefix %v, frame %d", i, prefix, st.Frame[i])
		}
	}
	for _, at := range frames {
		if at >= len(funcs) || funcs[at] >= len(f.Shared.StringArray) {
			t.Fatalf("a frame of function %d", at)
		}
	}
	for _, table := range []map[string]json.RawMessage{f.Shared.FrameTable, f.Shared.FuncTable} {
		checkColumns(t, table)
	}
	return f
}

// checkColumns looks whether all columns of a table are as long as it says.
func checkColumns(t *testing.T, table map[string]json.RawMessage) {
	t.Helper()
	var length int
	_ = json.Unmarshal(table["length"], &length)
	for name, text := range table {
		var column []any
		if name != "length" && (json.Unmarshal(text, &column) != nil || len(column) != length) {
			t.Errorf("column %s has %d of %d", name, len(column), length)
		}
	}
}

func ints(t *testing.T, text json.RawMessage) (out []int) {
	t.Helper()
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

// leaf is the name of a stack's innermost function.
func (f *firefoxFile) leaf(t *testing.T, stack int) string {
	frames, funcs := ints(t, f.Shared.FrameTable["func"]), ints(t, f.Shared.FuncTable["name"])
	return f.Shared.StringArray[funcs[frames[f.Shared.StackTable.Frame[stack]]]]
}

// sums adds a thread's rows up by function, a free to where its block came from, as the profiler pairs them.
func (f *firefoxFile) sums(t *testing.T, thread int) map[string]*sums {
	t.Helper()
	type birth struct {
		bytes int64
		stack int
	}
	a := &f.Threads[thread].NativeAllocations
	live, byStack := make(map[uint64]birth), make(map[int]*sums)
	if len(a.Time) != a.Length || len(a.Weight) != a.Length || len(a.Stack) != a.Length || len(a.MemoryAddress) != a.Length || len(a.ThreadID) != a.Length || !slices.IsSorted(a.Time) {
		t.Fatalf("columns of other lengths than %d, or not in the order of time", a.Length)
	}
	for i, bytes := range a.Weight {
		if bytes < 0 {
			b, ok := live[a.MemoryAddress[i]]
			if !ok || b.bytes != -bytes || a.Stack[i] != nil {
				t.Fatalf("row %d frees %d of %+v", i, bytes, b)
			}
			delete(live, a.MemoryAddress[i])
			byStack[b.stack].frees++
			byStack[b.stack].liveBytes -= uint64(-bytes)
			continue
		}
		if _, ok := live[a.MemoryAddress[i]]; ok || a.Stack[i] == nil {
			t.Fatalf("row %d allocates where another block lives", i)
		}
		b := birth{bytes, *a.Stack[i]}
		live[a.MemoryAddress[i]] = b
		if byStack[b.stack] == nil {
			byStack[b.stack] = &sums{}
		}
		s := byStack[b.stack]
		s.allocs++
		s.allocBytes += uint64(bytes)
		s.liveBytes += uint64(bytes)
	}
	out := make(map[string]*sums)
	for stack, s := range byStack {
		out[f.leaf(t, stack)] = s
	}
	return out
}

func TestFirefoxHasEveryBlock(t *testing.T) {
	t.Parallel()
	s := twoProcesses(20_000)
	text, notes := s.write(t, Options{Format: Firefox})
	f := readFirefox(t, text)
	if len(f.Threads) != 2 || len(notes) != 0 || f.Meta.Ended <= float64(s.now-sceneStart)/1e6 {
		t.Fatalf("%d threads until %f ms, %q", len(f.Threads), f.Meta.Ended, notes)
	}
	for i, pid := range []uint32{100, 200} {
		compareLeaves(t, f.sums(t, i), s.books[pid].byLeaf)
	}
	if len(f.Libs) != 2 || f.Libs[0].Path+f.Libs[1].Path != "/usr/lib/library.so/usr/bin/program" {
		t.Errorf("%+v", f.Libs)
	}
	f.checkCounters(t, s)
}

// checkCounters looks at where counters peak and end.
func (f *firefoxFile) checkCounters(t *testing.T, s *scene) {
	t.Helper()
	books := []*book{s.books[100], s.books[200]}
	for _, c := range f.Counters {
		b := books[c.MainThreadIndex]
		var now, most int64
		for _, change := range c.Samples.Count {
			now += change
			most = max(most, now)
		}
		last, peak := b.held, b.peak
		if c.Name == "RSS" {
			last, peak = b.rss[len(b.rss)-1], slices.Max(b.rss)
		}
		if uint64(now) != last || uint64(most) != peak || len(c.Samples.Time) != c.Samples.Length || !slices.IsSorted(c.Samples.Time) {
			t.Errorf("%s of %s ends at %d, want %d; peaks at %d, want %d", c.Name, c.PID, now, last, most, peak)
		}
	}
	if len(f.Counters) != 4 {
		t.Errorf("%d counters", len(f.Counters))
	}
}

// Over the limit, a sample of the blocks stands for all: balanced, and within a fifth of the truth, which is several
// standard errors of so many rows.
func TestFirefoxSamplesWhatIsOverTheLimit(t *testing.T) {
	t.Parallel()
	s := twoProcesses(40_000)
	const limit = 4000
	text, notes := s.write(t, Options{Format: Firefox, Rows: limit})
	f := readFirefox(t, text)
	rows := 0
	for i, pid := range []uint32{100, 200} {
		rows += f.Threads[i].NativeAllocations.Length
		var got uint64
		for _, sum := range f.sums(t, i) {
			got += sum.allocBytes
		}
		b := s.books[pid]
		if off := math.Abs(float64(got) - float64(b.sum.allocBytes)); off > 0.2*float64(b.sum.allocBytes) || got == b.sum.allocBytes {
			t.Errorf("%d: %d bytes allocated, want about %d", pid, got, b.sum.allocBytes)
		}
	}
	if rows > limit*11/10 || rows < limit/4 {
		t.Errorf("%d rows of %d", rows, limit)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "blocks are left out, to stay within 4000 rows") || f.Meta.Extra[0].Entries[0].Value != notes[0] {
		t.Errorf("%q, and in the file %+v", notes, f.Meta.Extra)
	}
}

// What is sampled already stands for what the analyzer says that it does.
func TestSampledBlocks(t *testing.T) {
	t.Parallel()
	s := newScene(9)
	s.interval = 1000
	b := s.process(100, "sampled", 5)
	s.run(b, 5000, 5)
	s.end()
	// docs/sampling.md: s bytes stand for s / (1 - exp(-s/interval)).
	want := 0.0
	for _, h := range b.live {
		want += float64(h.size) / (1 - math.Exp(-float64(h.size)/1000))
	}
	text, notes := s.write(t, Options{Format: Firefox})
	var got uint64
	for _, sum := range readFirefox(t, text).sums(t, 0) {
		got += sum.liveBytes
	}
	text, _ = s.write(t, Options{Format: Heaptrack})
	if leaked := readHeaptrack(t, text).leaked; math.Abs(float64(got)-want) > float64(len(b.live)) || leaked != got {
		t.Errorf("live: %d bytes for firefox and %d for heaptrack, want %.0f", got, leaked, want)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "were sampled: bytes are estimates") {
		t.Error(notes)
	}
}
