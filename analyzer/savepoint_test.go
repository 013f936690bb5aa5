package analyzer

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
)

func reportText(t *testing.T, a *Analyzer) string {
	t.Helper()
	text, err := json.Marshal(a.Report(ReportOptions{Final: true}))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Analyzers that begin with a Savepoint go on as the one that it is of, whatever the others do meanwhile.
func TestSavepointGoesOnAsItsAnalyzer(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		config := Config{Start: testStart, FollowForks: true, Seed: [2]uint64{seed, 7}, MinAge: 1000, SiteRoom: 1 << 20, BlockRoom: 4 << 20, maxListed: 5}
		full := New(config)
		var inputs []input.Input
		s := &story{r: rand.New(rand.NewPCG(seed, 2)), time: testStart + 1000, next: 100, live: map[uint32]map[uint64]uint64{}, stack: map[[2]uint64]bool{}}
		s.give = func(in input.Input) { inputs = append(inputs, input.Copy(in)) }
		s.start(1)
		s.start(2)
		for i := range 4000 {
			s.step()
			if i%100 == 99 {
				s.give(input.Window{Now: s.time})
			}
		}
		cuts := []int{len(inputs) / 7, len(inputs) / 3, len(inputs) / 2, len(inputs) - 1}
		var points []*Savepoint
		for i, in := range inputs {
			if slices.Contains(cuts, i) {
				points = append(points, full.Savepoint())
			}
			full.Take(in)
		}
		full.Take(input.Instant{Now: s.time})
		want, lives := reportText(t, full), livesOf(full)
		full.Close()
		for range 2 { // a Savepoint serves again
			for i, p := range points {
				part := New(config)
				if err := part.Restore(p); err != nil {
					t.Fatal(err)
				}
				for _, in := range inputs[cuts[i]:] {
					part.Take(in)
				}
				part.Take(input.Instant{Now: s.time})
				if got := reportText(t, part); got != want {
					t.Fatalf("seed %d: from input %d: %.3000s\nwant %.3000s", seed, cuts[i], got, want)
				}
				if got := livesOf(part); !slices.Equal(got, lives) {
					t.Fatalf("seed %d: from input %d: other blocks live", seed, cuts[i])
				}
				part.Close()
			}
		}
	}
}

// memoryOf lists where the memory of a value is that may change.
func memoryOf(v reflect.Value, seen map[uintptr]string, path string) {
	switch v.Type() {
	case reflect.TypeFor[Config](), reflect.TypeFor[*report.Frame](), reflect.TypeFor[[]*report.Frame](), reflect.TypeFor[stackStore]():
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.UnsafePointer:
		if v.Pointer() == 0 || seen[v.Pointer()] != "" {
			return
		}
		seen[v.Pointer()] = path
	case reflect.Slice:
		if v.Len() == 0 {
			return
		}
		seen[v.Pointer()] = path
	}
	switch v.Kind() {
	case reflect.Pointer:
		memoryOf(v.Elem(), seen, path+"*")
	case reflect.Struct:
		for i := range v.NumField() {
			memoryOf(v.Field(i), seen, path+"."+v.Type().Field(i).Name)
		}
	case reflect.Array, reflect.Slice:
		for i := range v.Len() {
			memoryOf(v.Index(i), seen, path+"[]")
		}
	case reflect.Map:
		for i := v.MapRange(); i.Next(); {
			memoryOf(i.Key(), seen, path+"{key}")
			memoryOf(i.Value(), seen, path+"{}")
		}
	}
}

// A Savepoint shares nothing that may change with what it is of, nor with what begins with it.
func TestSavepointIsApart(t *testing.T) {
	t.Parallel()
	config := Config{Start: testStart, FollowForks: true, SiteRoom: 8 << 20, BlockRoom: 8 << 20, maxListed: 5}
	full := New(config)
	defer full.Close()
	s := &story{r: rand.New(rand.NewPCG(5, 2)), time: testStart + 1000, next: 100, live: map[uint32]map[uint64]uint64{}, stack: map[[2]uint64]bool{}}
	s.give = func(in input.Input) { full.Take(input.Copy(in)) }
	s.start(1)
	for i := range 5000 {
		if s.step(); i%50 == 0 {
			s.give(input.Window{Now: s.time})
		}
	}
	point := full.Savepoint()
	part := New(config)
	defer part.Close()
	if err := part.Restore(point); err != nil {
		t.Fatal(err)
	}
	var all [3]map[uintptr]string
	for i, a := range []*Analyzer{full, point.analyzer, part} {
		all[i] = make(map[uintptr]string)
		memoryOf(reflect.ValueOf(a), all[i], "")
	}
	if len(all[0]) < 1000 || len(all[0]) != len(all[1]) || len(all[0]) != len(all[2]) {
		t.Errorf("%d, %d and %d pieces of memory", len(all[0]), len(all[1]), len(all[2]))
	}
	for at, path := range all[1] {
		if all[0][at] != "" || all[2][at] != "" {
			t.Errorf("%s is shared", path)
		}
	}
}

// An Analyzer that finds no memory for what a Savepoint has is as fresh as before, and nothing of the Savepoint's is
// given back to the kernel.
func TestRestoreWithoutMemory(t *testing.T) {
	t.Parallel()
	config := Config{Start: testStart, FollowForks: true, Seed: [2]uint64{3, 7}, MinAge: 1000}
	full := New(config)
	defer full.Close()
	s := &story{
		r: rand.New(rand.NewPCG(3, 2)), time: testStart + 1000, next: 100,
		live: map[uint32]map[uint64]uint64{}, stack: map[[2]uint64]bool{},
	}
	var inputs []input.Input
	s.give = func(in input.Input) {
		inputs = append(inputs, input.Copy(in))
		full.Take(input.Copy(in))
	}
	s.start(1)
	s.start(2)
	for range 2000 {
		s.step()
	}
	point, want := full.Savepoint(), reportText(t, full)
	chunks := 0
	errFull := errors.New("there is no more")
	for most := 0; ; most++ {
		part := New(config)
		chunks = 0
		err := part.restore(point, func(huge bool) (unsafe.Pointer, error) {
			if chunks++; chunks > most {
				return nil, errFull
			}
			return newChunk(huge)
		})
		if err == nil {
			part.Close()
			break
		}
		if !errors.Is(err, errFull) {
			t.Fatal(err)
		}
		for _, in := range inputs {
			part.Take(input.Copy(in))
		}
		if got := reportText(t, part); got != want {
			t.Fatalf("with %d chunks, and then all inputs: %.3000s\nwant %.3000s", most, got, want)
		}
		part.Close()
		again := New(config)
		if err := again.Restore(point); err != nil {
			t.Fatal(err)
		}
		if got := reportText(t, again); got != want {
			t.Fatalf("the Savepoint after a failure: %.3000s\nwant %.3000s", got, want)
		}
		again.Close()
	}
	if chunks < 2 {
		t.Errorf("%d chunks", chunks)
	}
}
