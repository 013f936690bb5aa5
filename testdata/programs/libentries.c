/*
 * An allocator with more entry points than malloc: with an arena as the first
 * argument, as Mozilla's has, under rpmalloc's names, and one that nobody knows.
 * Blocks come from one piece of memory. The last block that is freed is given out
 * again; others are not.
 */
#include <stddef.h>
#include <string.h>

#define NOIPA __attribute__((noipa, used))
#define ROOM (32 << 20)

static char room[ROOM];
static size_t used;
static char *last; /* freed */

static void *take(size_t size)
{
	char *block = last;

	size = (size + 31) & ~15ul;
	if (block && *(size_t *)(block - 16) >= size) {
		last = NULL;
		return block;
	}
	if (ROOM - used < size + 16)
		return NULL;
	block = room + used + 16;
	*(size_t *)(block - 16) = size;
	used += size + 16;
	return block;
}

static void give(void *block)
{
	if (block)
		last = block;
}

static void *move(void *block, size_t size)
{
	void *fresh = take(size);

	if (fresh && block) {
		size_t old = *(size_t *)((char *)block - 16);

		memmove(fresh, block, old < size ? old : size);
		give(block);
	}
	return fresh;
}

NOIPA void *malloc(size_t size) { return take(size); }
NOIPA void *calloc(size_t n, size_t size) { return memset(take(n * size), 0, n * size); }
NOIPA void *realloc(void *block, size_t size) { return move(block, size); }
NOIPA void free(void *block) { give(block); }

NOIPA void *moz_arena_malloc(size_t arena, size_t size) { return arena ? take(size) : NULL; }
NOIPA void *moz_arena_calloc(size_t arena, size_t n, size_t size) { return arena ? memset(take(n * size), 0, n * size) : NULL; }
NOIPA void *moz_arena_realloc(size_t arena, void *block, size_t size) { return arena ? move(block, size) : NULL; }
NOIPA void *moz_arena_memalign(size_t arena, size_t alignment, size_t size) { return arena && alignment <= 16 ? take(size) : NULL; }
NOIPA void moz_arena_free(size_t arena, void *block)
{
	if (arena)
		give(block);
}

NOIPA void *rpmalloc(size_t size) { return take(size); }
NOIPA void *rpaligned_calloc(size_t alignment, size_t n, size_t size) { return alignment <= 16 ? memset(take(n * size), 0, n * size) : NULL; }
NOIPA void *rpaligned_realloc(void *block, size_t alignment, size_t size, size_t old, unsigned flags) { return alignment <= 16 && old | flags ? move(block, size) : NULL; }
NOIPA void rpfree(void *block) { give(block); }

NOIPA void *region_alloc(const char *region, size_t size) { return region ? take(size) : NULL; }
