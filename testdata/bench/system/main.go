// Command system measures what it takes to read the memory of all processes of
// a machine: the kernel's own walks (the floor: open, read and close of each
// smaps_rollup, unparsed), memtrace's collector, a reader on prometheus/procfs,
// and the programs smem and ps_mem, in rounds where each has its turn. It is a
// module of its own, so that memtrace doesn't depend on what it is compared with.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/memtrace/memtrace/testdata/bench/section"
)

// settings are the flags.
type settings struct {
	out    string
	rounds int
	pairs  int            // of slices, for what a target loses
	binary string         // memtrace
	keep   string         // file of what was measured in parts
	only   *regexp.Regexp // contenders, besides the floor
	scenes *regexp.Regexp
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "child" {
		child(os.Args[2])
		return
	}
	var s settings
	flag.StringVar(&s.out, "o", "", "put the results into this file, too, after what it says of tracing")
	only := flag.String("only", "", "measure only what matches this expression, and the floor")
	in := flag.String("in", "", "measure only in scenes that match this expression")
	flag.IntVar(&s.rounds, "rounds", 7, "rounds")
	flag.IntVar(&s.pairs, "pairs", 60, "pairs of slices that tell what a target loses; 0: leave that out")
	flag.StringVar(&s.keep, "keep", "", "add to what this file has of earlier runs of other scenes, and write all of it")
	flag.StringVar(&s.binary, "memtrace", "./memtrace", "memtrace")
	flag.Parse()
	var err error
	if s.only, err = regexp.Compile(*only); err == nil {
		s.scenes, err = regexp.Compile(*in)
	}
	if err == nil {
		var done bool
		if done, err = isolate(); err == nil && !done {
			err = run(s)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// scenes are the machines that are measured.
var scenes = []scene{
	{name: "300 idle processes", processes: 300},
	{name: "2,000 idle processes", processes: 2000},
	{name: "300 processes of 32 MB", processes: 300, mib: 32},
}

func run(s settings) error {
	var all measured
	if err := all.load(s.keep); err != nil {
		return err
	}
	for _, sc := range scenes {
		if !s.scenes.MatchString(sc.name) {
			continue
		}
		t, err := s.measureScene(sc)
		if err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
		all.add(t)
		if err := all.save(s.keep); err != nil {
			return err
		}
	}
	if s.pairs > 0 {
		var err error
		if all.Stall, err = measureStall(s.binary, s.pairs); err != nil {
			return fmt.Errorf("stall: %w", err)
		}
		if err := all.save(s.keep); err != nil {
			return err
		}
	}
	text := document(all.Tables) + all.Stall
	if all.Stall != "" {
		text += "\nThe first row is chance alone. Only what goes well beyond it tells anything.\n"
	}
	fmt.Print(text)
	if s.out == "" {
		return nil
	}
	return section.Write(s.out, "system", text)
}

// measured is what was measured, of which a quiet machine may allow but a part
// at a time.
type measured struct {
	Tables []table
	Stall  string
}

func (m *measured) load(name string) error {
	data, err := os.ReadFile(name)
	if name == "" || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, m)
	}
	return err
}

func (m *measured) save(name string) error {
	if name == "" {
		return nil
	}
	data, err := json.Marshal(m)
	if err == nil {
		err = os.WriteFile(name, data, 0o644)
	}
	return err
}

// add puts a scene into its place.
func (m *measured) add(t table) {
	m.Tables = slices.DeleteFunc(m.Tables, func(old table) bool { return old.Scene == t.Scene })
	m.Tables = append(m.Tables, t)
	place := func(t table) int { return slices.IndexFunc(scenes, func(sc scene) bool { return sc.name == t.Scene }) }
	slices.SortFunc(m.Tables, func(a, b table) int { return place(a) - place(b) })
}

func (s settings) measureScene(sc scene) (table, error) {
	fmt.Fprintf(os.Stderr, "bench: starting %s\n", sc.name)
	stop, err := sc.start()
	defer stop()
	if err != nil {
		return table{}, err
	}
	contenders, err := open()
	if err != nil {
		return table{}, err
	}
	contenders = slices.DeleteFunc(contenders, func(c contender) bool { return c.name != floorName && !s.only.MatchString(c.name) })
	t := table{Scene: sc.name, Rounds: s.rounds, Times: make(map[string][]measurement)}
	for _, c := range contenders {
		t.Names = append(t.Names, c.name)
		if _, err := c.measure(); err != nil { // the first turn warms up, and is left out
			return table{}, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	for range s.rounds {
		for _, c := range contenders {
			m, err := c.measure()
			if err != nil {
				return table{}, fmt.Errorf("%s: %w", c.name, err)
			}
			t.Times[c.name] = append(t.Times[c.name], m)
		}
		time.Sleep(50 * time.Millisecond) // so that the rounds don't all meet the same neighbour
	}
	for _, c := range contenders {
		c.close()
	}
	t.Live, err = liveShare(s.binary, s.rounds)
	return t, err
}
