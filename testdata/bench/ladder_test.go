package main

import (
	"math"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/testdata/bench/ladder"
)

// madeUp are turns of 1,000 allocations and 900 frees in which each rung takes 10 ns a call more in the programs and
// 12 in all, and every round 1,000 ns a call more than the one before.
func madeUp(rounds int) *ladderResults {
	r := &ladderResults{Machine: "a machine", Date: "a day", Turns: make(map[string][]ladderTurn)}
	for round := range rounds {
		r.Loads = append(r.Loads, "0.10")
		for i, name := range ladderPrograms()[0].variants() {
			r.Turns[name] = append(r.Turns[name], ladderTurn{
				Target: float64(round)*1e6 + float64(i)*12_000, Tracer: 5_000,
				Alloc: ran{1000, float64(i) * 10_000}, Free: ran{900, float64(i) * 9_000},
			})
		}
		whole := &r.Turns[ladder.Whole][round]
		whole.Events, whole.Blocks, whole.Temporary, whole.Tracer = 1900, 1000, 250, 5_000+1900*40
		r.Turns[plainWholeName][round].Target, r.Turns[plainWholeName][round].Tracer = 900_000, 100_000
	}
	return r
}

func TestPairingIsOfMeasuredSteps(t *testing.T) {
	p := madeUp(7).pairing()
	// Three steps of an allocation and of a free, and two events of 40 ns.
	if p.alloc != 30 || p.free != 30 || math.Abs(p.event-40) > 1e-9 || p.temporary != 0.25 {
		t.Errorf("%+v", p)
	}
	temporary, all := p.spared()
	if want := 250 * 140 / 1e6; math.Abs(temporary-want) > 1e-9 {
		t.Errorf("temporary blocks spare %v of all, not %v", temporary, want)
	}
	if want := 900 * 140 / 1e6; math.Abs(all-want) > 1e-9 {
		t.Errorf("all blocks spare %v of all, not %v", all, want)
	}
}

// Differences are taken within rounds, so that rounds that differ hide nothing.
func TestStepsAreDifferencesWithinRounds(t *testing.T) {
	r := madeUp(7)
	if got := r.more("arguments", "lookup", target); got != 12_000 {
		t.Errorf("a step of 12,000 ns comes out as %v", got)
	}
	text := ladderTable(ladderPrograms()[0], r)
	for _, want := range []string{"| the arguments, and whether the call is one within another | 3060 |", "| +12 | 50 | 0 % | +10 |", "The machine was busy"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "too few") || !strings.Contains(ladderTable(ladderPrograms()[0], madeUp(6)), "too few") {
		t.Error("6 rounds are too few, and 7 are enough")
	}
	if busy := "were busy with other work"; strings.Contains(text, busy) {
		t.Error("at a load of 0.1 it says that all processors were busy")
	} else if r.Loads[3] = "4000.5"; !strings.Contains(ladderTable(ladderPrograms()[0], r), busy) {
		t.Error("at a load of 4,000 it does not say that all processors were busy")
	}
}

// A program that leaves rungs out has the steps of those in the next one.
func TestCoarseRungsStandOnOneAnother(t *testing.T) {
	var got []string
	for _, r := range ladderPrograms()[1].rungs() {
		got = append(got, r.Name+" on "+r.Before)
	}
	want := "all_traps on ,floor on ,return on floor,walk on return,send on walk,submit on send,free_state on floor,free_submit on free_state,whole on floor"
	if strings.Join(got, ",") != want {
		t.Errorf("they are %v", got)
	}
	// From the floor, the 4th, to "return", the 8th, of the loop's variants it is four steps.
	if text := ladderTable(ladderPrograms()[1], madeUp(7)); !strings.Contains(text, "| +48 | 70 | 0 % | +40 |") {
		t.Errorf("the step of four is missing:\n%s", text)
	}
}
