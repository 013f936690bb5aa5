package recording

import (
	"bytes"
	"errors"
	"math/rand/v2"
	gosync "sync"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/query"
)

// manyBlocks makes a recording whose blocks are small.
func manyBlocks(t testing.TB, inputs []input.Input) []byte {
	t.Helper()
	f, w := writeInMemory(t, Options{})
	for i, in := range inputs {
		if w.Take(in); i%8 == 7 {
			w.flush()
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Bytes()
}

// withSavepoints opens a recording that shares them.
func withSavepoints(t testing.TB, file []byte, s *Savepoints) *Reader {
	t.Helper()
	r := open(t, file)
	r.Savepoints = s
	return r
}

// sameAt compares what a recording says of random instants with what it says when it is played from its beginning.
func sameAt(t *testing.T, file []byte, s *Savepoints, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 3))
	first, last := open(t, file).Span()
	for i := range 12 {
		at := first + random.Uint64N(last-first+2)
		if i == 0 {
			at = End // all of it, which makes the Savepoints
		}
		got, missing, err := withSavepoints(t, file, s).ReportAt(at, Rooms{}, final)
		if err != nil {
			t.Fatal(err)
		}
		want, lacks, err := open(t, file).ReportAt(at, Rooms{}, final)
		if err != nil {
			t.Fatal(err)
		}
		if sameReport(t, got, want); len(missing) != len(lacks) {
			t.Fatalf("at %d: %q, want %q", at, missing, lacks)
		}
	}
}

// Any instant is the same from a Savepoint as from the beginning, also where the file is damaged, cut or begins with a
// checkpoint, and where there is no room for all Savepoints.
func TestInstantsFromSavepoints(t *testing.T) {
	t.Parallel()
	x := traceOf(21, 60)
	defer x.analyzer.Close()
	whole := manyBlocks(t, x.inputs)
	at, heads := blocksOf(t, whole)
	damaged := bytes.Clone(whole)
	for i := len(at) / 4; i < len(at); i += len(at) / 4 {
		if heads[i].kind == kindInputs {
			damaged[at[i]+headSize+3] ^= 4
		}
	}
	for name, file := range map[string][]byte{
		"whole": whole, "damaged": damaged, "damaged heads": bytes.ReplaceAll(whole, whole[at[7]:at[7]+headSize], make([]byte, headSize)),
		"cut": whole[:len(whole)*2/3], "the first block is gone": append(bytes.Clone(whole[:at[2]]), whole[at[3]:]...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := NewSavepoints(1<<30, 1000)
			sameAt(t, file, s, 1)
			if len(s.list) == 0 {
				t.Error("there is no Savepoint")
			}
			small := NewSavepoints(s.used/2, 1000)
			sameAt(t, file, small, 2)
			if small.used > small.room {
				t.Errorf("%d bytes of Savepoints in a room of %d", small.used, small.room)
			}
			none := NewSavepoints(100, 1000)
			if sameAt(t, file, none, 3); len(none.list) != 0 {
				t.Errorf("%d Savepoints in a room of %d", len(none.list), none.room)
			}
		})
	}
}

// What begins with a checkpoint goes on from Savepoints, too.
func TestSavepointsAfterACheckpoint(t *testing.T) {
	t.Parallel()
	x := traceOf(22, 60)
	defer x.analyzer.Close()
	f, w := writeInMemory(t, Options{})
	part, err := header.Config.Analyzer(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	a := analyzer.New(part)
	defer a.Close()
	cut := uint64(0)
	for i, in := range x.inputs {
		a.Take(in)
		if w.Take(in); i == len(x.inputs)/2 {
			cut = timeOf(in)
			w.Checkpoint(cut, true, func() *analyzer.Checkpoint { return a.Checkpoint(cut) })
			<-w.state.done
		}
		if i%8 == 7 {
			w.flush()
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	whole := f.Bytes()
	at, heads := blocksOf(t, whole)
	file := bytes.Clone(whole[:at[2]]) // the headers
	kept := false
	for i, h := range heads {
		end := len(whole)
		if i+1 < len(at) {
			end = at[i+1]
		}
		if kept = kept || h.kind == kindState; kept {
			file = append(file, whole[at[i]:end]...)
		}
	}
	if from, carried := open(t, file).From(); !carried || from != cut {
		t.Fatalf("it begins at %d, %v, want %d", from, carried, cut)
	}
	s := NewSavepoints(1<<30, 1000)
	if sameAt(t, file, s, 4); len(s.list) == 0 {
		t.Error("there is no Savepoint")
	}
}

// Questions about a span have the same answers.
func TestQueriesFromSavepoints(t *testing.T) {
	t.Parallel()
	x := traceOf(23, 40)
	defer x.analyzer.Close()
	file := manyBlocks(t, x.inputs)
	s := NewSavepoints(1<<30, 1000)
	if _, _, err := withSavepoints(t, file, s).ReportAt(End, Rooms{}, final); err != nil {
		t.Fatal(err)
	}
	config, err := header.Config.Analyzer(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	first, last := open(t, file).Span()
	ask := func(s *Savepoints, text string, o query.Options) string {
		q, err := query.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		res, err := query.Run(query.Source{Config: config, End: last - first, Play: func(a *analyzer.Analyzer, from, until uint64) ([]string, error) {
			return withSavepoints(t, file, s).PlayFrom(a, from, until, nil)
		}}, q, o)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := query.Write(&out, res, "json", 0); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	random := rand.New(rand.NewPCG(1, 4))
	for range 6 {
		from := 1 + random.Uint64N(last-first-2)
		to := from + random.Uint64N(last-first-from)
		for text, o := range map[string]query.Options{
			"": {}, "size > 100": {By: "size"}, "live": {By: query.None}, `function ~ "f1" || lifetime < 10us`: {By: "function"}, "freed > 0s": {By: "thread"},
		} {
			o.From, o.To = from, to
			if got, want := ask(s, text, o), ask(nil, text, o); got != want {
				t.Fatalf("%q from %d to %d: %.2000s\nwant %.2000s", text, from, to, got, want)
			}
		}
	}
}

// Readers may share Savepoints at once; one that is given up leaves them usable.
func TestSavepointsOfSeveralReaders(t *testing.T) {
	t.Parallel()
	x := traceOf(24, 60)
	defer x.analyzer.Close()
	file := manyBlocks(t, x.inputs)
	s := NewSavepoints(1<<20, 500)
	first, last := open(t, file).Span()
	want, _, err := open(t, file).ReportAt(first+(last-first)*3/4, Rooms{}, final)
	if err != nil {
		t.Fatal(err)
	}
	text := asJSON(t, want)
	var all gosync.WaitGroup
	for i := range 6 {
		r := withSavepoints(t, file, s)
		if i%3 == 2 {
			r.Watch = func(done float64) error {
				if done > 0.5 {
					return errStop
				}
				return nil
			}
		}
		all.Go(func() {
			got, _, err := r.ReportAt(first+(last-first)*3/4, Rooms{}, final)
			if i%3 != 2 && (err != nil || asJSON(t, got) != text) || i%3 == 2 && err != nil && !errors.Is(err, errStop) {
				t.Errorf("reader %d: %v", i, err)
			}
		})
	}
	all.Wait()
	sameAt(t, file, s, 5)
}
