package ladder

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// An edit puts text into a copy of a source, at lines that must be there once.
type edit struct {
	file string
	at   string // whole lines
	to   string // what stands there then
}

func before(file, at, text string) edit { return edit{file, at, text + at} }
func after(file, at, text string) edit  { return edit{file, at, at + text} }

// Sources of the programs, under bpf.
const (
	programs = "memtrace.bpf.c"
	stack    = "headers/stack.h"
	reuse    = "headers/reuse.h"
	emit     = "headers/emit.h"
	block    = "headers/block.h"
	ring     = "headers/ring.h"
)

// edits are all of them. Steps of an allocation come first in LADDER's values, then those of a free.
func edits() []edit {
	list := []edit{
		before(programs, "#include \"block.h\"\n", "#include \"ladder.h\"\n"),
		after(programs, "int session_alloc(struct pt_regs *ctx)\n{\n", `	if (LADDER == RUNG_all_traps)
		return 0;
	if (LADDER == RUNG_floor || LADDER >= RUNG_free_lookup)
		return 1;
`),
		after(programs, "int multi_free(struct pt_regs *ctx)\n{\n", `	if (LADDER != RUNG_whole && LADDER < RUNG_free_lookup)
		return 0;
`),
	}
	for _, more := range [][]edit{allocEdits(), stackEdits(), recordEdits(), ringEdits(), freeEdits()} {
		list = append(list, more...)
	}
	return list
}

func allocEdits() []edit {
	return []edit{
		before(programs, "\t\tentered = alloc_enter(self, ctx, t, k->cookie, k, true);\n",
			"\t\tif (LADDER == RUNG_lookup)\n\t\t\treturn 1;\n"),
		before(programs, "\tif (!can_sample)\n\t\treturn await(self, ctx, t, cookie, k);\n",
			"\tif (LADDER == RUNG_arguments)\n\t\treturn NO_RETURN;\n"),
		// Without its return, whether the call was predicted or not.
		before(programs, "\tt->outer = REG_IP(ctx);\n\tt->sp = REG_SP(ctx);\n\tt->by_exit",
			"\tif (LADDER == RUNG_predict)\n\t\treturn NO_RETURN;\n"),
		after(programs, "static __always_inline void record_call(struct self self, struct pt_regs *ctx, struct thread *t, u64 addr)\n{\n",
			`	if (LADDER == RUNG_predict || LADDER == RUNG_return) {
		LADDER_USE(addr);
		return;
	}
`),
		before(programs, "\tstack = t->shape == SHAPE_POOL_BEGIN ? 0 : take_stack(self, ctx, t); /* that one has a name */\n",
			`	if (LADDER == RUNG_choose) {
		LADDER_USE(what);
		return;
	}
`),
		after(programs, "\tstack = t->shape == SHAPE_POOL_BEGIN ? 0 : take_stack(self, ctx, t); /* that one has a name */\n",
			`	if (LADDER >= RUNG_walk && LADDER <= RUNG_send) {
		LADDER_USE(what);
		LADDER_USE(stack);
		return;
	}
`),
	}
}

// stackEdits part the walk, the hash of what it finds, the look-up and the sending.
func stackEdits() []edit {
	const walk = "\tif (LADDER == RUNG_walk)\n\t\treturn "
	return []edit{
		after(stack, "static __always_inline u64 add_to_hash(u64 h, u64 pc)\n{\n", walk+"h + 1;\n"),
		after(reuse, "static __always_inline u64 frame_hash(u64 pc)\n{\n", walk+"pc;\n"),
		after(reuse, "static __always_inline u64 add_frame(u64 sum, u64 hash)\n{\n", walk+"sum + 1;\n"),
		after(stack, "static __always_inline u64 image_seed(struct self self)\n{\n", walk+"0;\n"),
		after(stack, "static __always_inline u64 stack_id(u64 hash)\n{\n", walk+"hash;\n"),
		after(stack, "\tid = stack_id(seed ^ sum ^ s->python.sum);\n", "\tif (LADDER == RUNG_walk || LADDER == RUNG_hash)\n\t\treturn id;\n"),
		after(stack, "static __always_inline u64 know_stack(u64 id, u32 place)\n{\n",
			"\tif (LADDER == RUNG_walk || LADDER == RUNG_hash)\n\t\treturn id;\n"),
		before(stack, "\treturn slot && *slot == id ? id : 0;\n", `	if (LADDER == RUNG_seen && slot) {
		if (*slot != id)
			*slot = id;
		return id;
	}
`),
		before(stack, "\tif (!send_python(self, s, id) || !send_stack(self, s, id)) {\n", `	if (LADDER == RUNG_seen && slot) {
		*slot = id;
		return id;
	}
`),
	}
}

// recordEdits part the place of an allocation's record from its content and its last word.
func recordEdits() []edit {
	fill := func(value string) string {
		return "\tif (LADDER == RUNG_reserve) {\n\t\tLADDER_USE(p.record);\n\t\treturn" + value + ";\n\t}\n"
	}
	const done = "\tif (LADDER == RUNG_fill)\n\t\treturn"
	const sized = "\tfill_head(self, &p.record->alloc.head, addr);\n\tp.record->alloc.size = "
	return []edit{
		before(emit, sized+"size;\n", fill("")),
		after(emit, "\tp.record->alloc.stack = stack;\n", done+";\n"),
		before(block, sized+"t->size;\n", fill(" true")),
		after(block, "\tp.record->began = t->began;\n", done+" true;\n"),
	}
}

func freeEdits() []edit {
	const filled = "\tfill_head(self, &p.record->alloc.head, addr);\n\tcommit(self, &p, aux, kind, flags);\n"
	return []edit{
		before(programs, "\tif (t)\n\t\tfree_enter(self, ctx, t, cookie);\n", `	if (LADDER == RUNG_free_lookup) {
		LADDER_USE(cookie);
		return 0;
	}
`),
		before(block, "\temit_head(self, RECORD_FREE, addr, interval, flags);\n", `	if (LADDER == RUNG_free_state) {
		LADDER_USE(addr);
		LADDER_USE(flags);
		return;
	}
`),
		before(emit, filled, `	if (LADDER == RUNG_free_reserve && kind == RECORD_FREE) {
		LADDER_USE(p.record);
		return;
	}
	if (LADDER == RUNG_free_fill && kind == RECORD_FREE) {
		fill_head(self, &p.record->alloc.head, addr);
		return;
	}
`),
	}
}

// ringEdits have lines that are never submitted taken by a position that the reader does not look at: it would wait
// for them. Nothing is ever given back, so the ring is never full.
func ringEdits() []edit {
	return []edit{
		{ring, "\t\tproducer->seen = *(volatile u64 *)&reader->pos;\n",
			"\t\tproducer->seen = *(volatile u64 *)(LADDER_SPARE ? LADDER_POS(producer) : &reader->pos);\n"},
		{ring, "\t*pos = *(volatile u64 *)&producer->pos;\n", "\t*pos = *(volatile u64 *)LADDER_POS(producer);\n"},
		{ring, "\treturn __sync_val_compare_and_swap(&producer->pos, *pos, *pos + 1) == *pos ? LINE_TAKEN : LINE_LOST;\n",
			"\treturn __sync_val_compare_and_swap(LADDER_POS(producer), *pos, *pos + 1) == *pos ? LINE_TAKEN : LINE_LOST;\n"},
	}
}

// header is headers/ladder.h, which the edits use.
func header() string {
	var names strings.Builder
	for _, r := range append([]Rung{{Name: Whole}}, Rungs()...) {
		if r.Name == Whole && names.Len() > 0 {
			continue
		}
		fmt.Fprintf(&names, "\tRUNG_%s,\n", r.Name)
	}
	return `#include "kernel.h"
enum ladder {
` + names.String() + `};
/* A value that is needed up to here, though nobody uses it. */
#define LADDER_USE(x) asm volatile("" ::"r"(x))
#define LADDER_SPARE (LADDER == RUNG_reserve || LADDER == RUNG_fill || LADDER == RUNG_free_reserve || LADDER == RUNG_free_fill)
#define LADDER_POS(producer) (LADDER_SPARE ? &(producer)->record.began : &(producer)->pos)
`
}

// apply makes the edits of a file; each must find its place exactly once.
func apply(file, text string) (string, error) {
	for _, e := range edits() {
		if e.file != file {
			continue
		}
		if n := strings.Count(text, e.at); n != 1 {
			return "", fmt.Errorf("bpf/%s has these lines %d times, where a step of the ladder is to end:\n%s", file, n, e.at)
		}
		text = strings.Replace(text, e.at, e.to, 1)
	}
	return text, nil
}

// copySources writes the sources of bpf with all edits into a directory.
func copySources(bpf, to string) error {
	err := filepath.WalkDir(bpf, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || (filepath.Ext(path) != ".c" && filepath.Ext(path) != ".h") {
			return err
		}
		file, err := filepath.Rel(bpf, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		edited, err := apply(file, string(text))
		if err != nil {
			return err
		}
		return write(filepath.Join(to, file), edited)
	})
	if err != nil {
		return err
	}
	return write(filepath.Join(to, "headers/ladder.h"), header())
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
