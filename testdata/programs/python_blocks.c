/*
 * CPython's allocator in small: functions that pass on to an allocator that
 * they reach through a table (Objects/obmalloc.c), which takes blocks of 64
 * bytes from a mapping of its own, and larger ones from malloc.
 */
#include "target.h"

#include <sys/mman.h>

static struct site small_site = {"small_objects"};
static struct site large_site = {"large_objects"};

static char *arena, *next, *unused[4096];
static unsigned unused_count;

NOIPA void *take(void *context, size_t size)
{
	target_sink = context;
	if (size > 64)
		return malloc(size);
	if (unused_count)
		return unused[--unused_count];
	if (!arena)
		next = arena = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	next += 64;
	return next - 64;
}

NOIPA void give(void *context, void *block)
{
	target_sink = context;
	if ((char *)block >= arena && (char *)block < arena + (1 << 20))
		unused[unused_count++] = block;
	else
		free(block);
}

static struct {
	void *context;
	void *(*volatile malloc)(void *, size_t);
	void (*volatile free)(void *, void *);
} table = {&table, take, give};

NOIPA void *PyObject_Malloc(size_t size) { return table.malloc(table.context, size); }
NOIPA void PyObject_Free(void *block) { table.free(table.context, block); }

/* 1,000 blocks of 40 bytes, every fourth freed. */
NOIPA void small_objects(void)
{
	for (int i = 0; i < 1000; i++) {
		void *block = took(&small_site, PyObject_Malloc(40), 40);
		if (i % 4 == 0) {
			gone(&small_site, 40);
			PyObject_Free(block);
		}
	}
}

/* 100 blocks of 1,000 bytes, half of them freed. */
NOIPA void large_objects(void)
{
	for (int i = 0; i < 100; i++) {
		void *block = took(&large_site, PyObject_Malloc(1000), 1000);
		if (i % 2 == 0) {
			gone(&large_site, 1000);
			PyObject_Free(block);
		}
	}
}

int main(int argc, char **argv)
{
	static struct site *sites[] = {&small_site, &large_site};
	target_begin(argc, argv);
	small_objects();
	large_objects();
	target_answer("python_blocks", 1, sites, COUNT_OF(sites));
	target_end();
	return 0;
}
