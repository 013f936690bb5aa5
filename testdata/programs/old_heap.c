/*
 * A heap as the malloc of an older glibc leaves it, written by hand: this
 * program calls no allocator. It has the main arena, its parameters, and behind
 * sbrk(0) chunk after chunk, with freed blocks in the first thread's cache and in a
 * fastbin.
 *
 *   old_heap WIDTH KEY [busy]
 *
 * WIDTH is that of the cache's counts: 1 (2.26 to 2.29) or 2 (2.30 to 2.33, and updates of 2.28).
 * KEY says what the second word of a cached block is: none (2.26 to 2.28), where what the program wrote last is
 * still there, or own, the cache's address (2.29 to 2.33). It prints
 *
 *   block ADDRESS SIZE kept      each block that it has
 *   block ADDRESS SIZE chance    one that might as well belong to a cache: only the program knows
 *   freed ADDRESS                each that it has freed
 *   ready
 *
 * and waits for the end of stdin, or runs for ever (busy).
 */
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef uintptr_t word;

static struct {
	int mutex, flags, have_fastchunks, pad;
	word fastbins[10], top, last_remainder, bins[254];
	unsigned binmap[4];
	word next, next_free, attached_threads, system_mem, max_system_mem;
} arena __attribute__((used)) = {.attached_threads = 1};

static struct {
	word trim_threshold, top_pad, mmap_threshold, arena_test, arena_max;
	int mmaps, mmaps_max, max_mmaps, no_dyn_threshold;
	word mmapped, max_mmapped, sbrk_base, tcache_bins, tcache_max_bytes, tcache_count, tcache_unsorted_limit;
} parameters __attribute__((used)) = { /* nothing here reads them */
	.mmaps_max = 65536, .tcache_bins = 64, .tcache_max_bytes = 1032, .tcache_count = 7,
};

static char *top;
static char said[1 << 16];
static size_t said_length;

static void say(const char *what, void *block, size_t size, const char *how)
{
	said_length += (size_t)snprintf(said + said_length, sizeof(said) - said_length, how ? "%s %p %zu %s\n" : "%s %p\n", what, block, size, how);
}

static size_t chunk_of(size_t n) { return n < 24 ? 32 : (n + 8 + 15) & ~(size_t)15; }

/* give takes a block from the top chunk, and writes what a program may have there. */
static word *give(size_t n)
{
	size_t chunk = chunk_of(n);
	word *block = (word *)(top + 16);
	((word *)top)[1] = chunk | 1;
	memset(block, 0, chunk - 16);
	block[1] = (word)0x8badf00d << 32 | n;
	top += chunk;
	return block;
}

static word *keep(size_t n)
{
	word *block = give(n);
	say("block", block, chunk_of(n) - 8, "kept");
	return block;
}

/* cache has a table's list take a freed block. */
static void cache(char *table, size_t width, int own, word *block, size_t n)
{
	size_t list = (chunk_of(n) - 32) / 16;
	word *entry = (word *)(table + 64 * width) + list;
	block[0] = *entry;
	if (own)
		block[1] = (word)table;
	*entry = (word)block;
	table[list * width]++;
	say("freed", block, 0, NULL);
}

/* likeness makes blocks of the program that look like a table and what hangs from it, but that its counts are no counts. */
static void likeness(size_t table_size, size_t width)
{
	word *root = keep(table_size), *one = keep(24), *two = keep(24), *other = keep(104);
	root[1] = 0;
	root[8 * width] = (word)one;
	root[8 * width + 5] = (word)other;
	one[0] = (word)two;
	two[0] = other[0] = 0;
	one[1] = two[1] = other[1] = (word)root; /* the owner */
}

/* chance makes such whose counts agree as well. */
static void chance(size_t table_size, size_t width)
{
	word *root = give(table_size), *one = give(40);
	root[1] = one[0] = 0;
	((char *)root)[width] = 1;
	root[8 * width + 1] = (word)one;
	one[1] = (word)root;
	say("block", root, chunk_of(table_size) - 8, "chance");
	say("block", one, chunk_of(40) - 8, "chance");
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	size_t width = argv[1][0] == '2' ? 2 : 1, table_size = 64 * width + 64 * 8, room = 1 << 16;
	int own = !strcmp(argv[2], "own");
	char *base = sbrk(0);
	base = sbrk((intptr_t)(room + (-(word)base & 15)));
	parameters.sbrk_base = (word)base;
	top = (char *)(((word)base + 15) & ~(word)15);
	char *end = top + room;

	char *table = (char *)give(table_size);
	memset(table, 0, table_size);
	static const size_t sizes[] = {24, 24, 24, 56, 56, 200, 1000, 1000};
	word *blocks[8];
	for (int i = 0; i < 8; i++) {
		blocks[i] = give(sizes[i]);
		keep(sizes[i]);
	}
	for (int i = 0; i < 8; i++)
		cache(table, width, own, blocks[i], sizes[i]);
	for (int i = 0; i < 2; i++) { /* a fastbin has chunks, and knows of no key */
		word *block = give(72);
		keep(72);
		block[0] = arena.fastbins[3];
		arena.fastbins[3] = (word)block - 16;
		say("freed", block, 0, NULL);
	}
	likeness(table_size, width);
	chance(table_size, width);

	((word *)top)[1] = (word)(end - top) | 1;
	for (int i = 0; i < 127; i++)
		arena.bins[2 * i] = arena.bins[2 * i + 1] = (word)&arena.bins[2 * i] - 16;
	arena.next = (word)&arena;
	arena.system_mem = arena.max_system_mem = room;
	arena.top = (word)top;

	said_length += (size_t)snprintf(said + said_length, sizeof(said) - said_length, "ready\n");
	if (write(STDOUT_FILENO, said, said_length) != (ssize_t)said_length)
		return 3;
	if (argc > 3)
		for (;;)
			__asm__ volatile("");
	for (char c; read(STDIN_FILENO, &c, 1) > 0;)
		;
	return 0;
}
