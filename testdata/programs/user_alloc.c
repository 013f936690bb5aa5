/*
 * Functions of its own that allocate, each in another way: from malloc with a
 * header before the block, from a mapping, through a pointer, in place of
 * another block, by count and size. Some release what malloc gave within.
 */
#include "target.h"

#include <sys/mman.h>

#define HEADER 32

static struct site header_site = {"with_header"};
static struct site bump_site = {"from_mapping"};
static struct site out_site = {"through_pointer"};
static struct site moved_site = {"moved"};
static struct site counted_site = {"counted"};
static struct site plain_site = {"plain_malloc"};

/* The block is not what malloc gave, and a second one serves it. */
NOIPA void *my_alloc(const char *what, size_t size)
{
	char *base = malloc(size + HEADER);
	void **aside = (void **)base;
	*aside = malloc(5);
	target_sink = (void *)what;
	return base + HEADER;
}

NOIPA void my_free(void *block)
{
	if (!block)
		return;
	char *base = (char *)block - HEADER;
	free(*(void **)base);
	free(base);
}

NOIPA void *my_calloc(int tag, size_t n, size_t size)
{
	target_sink = (void *)(intptr_t)tag;
	return my_alloc("calloc", n * size);
}

NOIPA void *my_realloc(void *block, size_t size)
{
	void *fresh = my_alloc("realloc", size);
	my_free(block);
	return fresh;
}

NOIPA int my_memalign(size_t size, void **out)
{
	if (size > 1 << 20)
		return 12;
	*out = my_alloc("memalign", size);
	return 0;
}

static char *heap, *next;

NOIPA void *bump_alloc(size_t size)
{
	if (!heap)
		next = heap = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *block = next;
	next += (size + 15) & ~(size_t)15;
	return block;
}

NOIPA void bump_free(void *block)
{
	target_sink = block;
}

/* Releases a block of its own, and some that the program had from malloc. */
NOIPA void drop_all(void *block, void **plain, int n)
{
	for (int i = 0; i < n; i++)
		free(plain[i]);
	my_free(block);
}

/* 20 blocks of 10 to 200 bytes, 10 of them freed. */
NOIPA void with_header(void)
{
	for (size_t i = 1; i <= 20; i++) {
		void *block = took(&header_site, my_alloc("x", i * 10), i * 10);
		if (i % 2) {
			gone(&header_site, i * 10);
			my_free(block);
		}
	}
	my_free(NULL);
}

/* 15 blocks of 64 bytes, 5 freed. */
NOIPA void from_mapping(void)
{
	for (int i = 0; i < 15; i++) {
		void *block = took(&bump_site, bump_alloc(64), 64);
		if (i < 5) {
			gone(&bump_site, 64);
			bump_free(block);
		}
	}
}

/* 6 blocks of 100 bytes, 3 freed, and one that fails. */
NOIPA void through_pointer(void)
{
	void *block;
	for (int i = 0; i < 6; i++) {
		took(&out_site, my_memalign(100, &block) ? NULL : block, 100);
		if (i < 3) {
			gone(&out_site, 100);
			my_free(block);
		}
	}
	took(&out_site, my_memalign(2 << 20, &block) ? NULL : block, 2 << 20);
}

/* One block that grows 4 times, by 100 bytes each. */
NOIPA void moved(void)
{
	void *block = resized(&moved_site, NULL, 0, my_realloc(NULL, 100), 100);
	for (size_t size = 100; size < 500; size += 100)
		block = resized(&moved_site, &moved_site, size, my_realloc(block, size + 100), size + 100);
}

/* 4 blocks of 7 times 11 bytes. */
NOIPA void counted(void)
{
	for (int i = 0; i < 4; i++)
		took(&counted_site, my_calloc(1, 7, 11), 77);
}

/* 100 blocks of 48 bytes that malloc gave, freed within drop_all, and 3 that stay. */
NOIPA void plain_malloc(void)
{
	static void *blocks[103];
	for (int i = 0; i < 103; i++)
		blocks[i] = took(&plain_site, malloc(48), 48);
	void *block = took(&plain_site, my_alloc("drop", 200), 200);
	for (int i = 0; i < 100; i++)
		gone(&plain_site, 48);
	gone(&plain_site, 200);
	drop_all(block, blocks, 100);
}

int main(int argc, char **argv)
{
	target_begin(argc, argv);
	with_header();
	from_mapping();
	through_pointer();
	moved();
	counted();
	plain_malloc();
	static struct site *sites[] = {&header_site, &bump_site, &out_site, &moved_site, &counted_site, &plain_site};
	target_answer("user_alloc", 1, sites, COUNT_OF(sites));
	target_end();
	return 0;
}
