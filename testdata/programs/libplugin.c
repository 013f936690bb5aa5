/*
 * A library that plugins.c loads: NAME begins its functions' names. Those of
 * SHIFTED lie elsewhere in it. OWN has an allocator of its own under the usual
 * names, which only a library loaded with RTLD_DEEPBIND uses alone.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define NOIPA __attribute__((noipa, used))

#ifdef SHIFTED
NOIPA void shift(void)
{
	__asm__ volatile(".fill 512, 1, 0x90");
}
#endif

#ifdef OWN
/* Blocks are never used again; each has its size before it. */
#define CHUNK (1 << 20)
static char *at, *end;

void *malloc(size_t size)
{
	size_t want = (size + 16 + 15) & ~(size_t)15;
	if (!at || (size_t)(end - at) < want) {
		at = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		end = at + CHUNK;
	}
	char *block = at + 16;
	*(size_t *)at = size;
	at += want;
	return block;
}

void free(void *block)
{
	if (block)
		((size_t *)block)[-2] = 0;
}

void *calloc(size_t n, size_t size) { return malloc(n * size); }

void *realloc(void *block, size_t size)
{
	void *next = malloc(size);
	if (block) {
		size_t old = ((size_t *)block)[-2];
		memcpy(next, block, old < size ? old : size);
		free(block);
	}
	return next;
}
#endif

/* A block of the library's allocator. */
NOIPA void *JOIN(NAME, _take)(size_t size)
{
	void *block = malloc(size);
	memset(block, 1, size);
	return block;
}

NOIPA void JOIN(NAME, _give)(void *block)
{
	free(block);
}
