/*
 * Calls every function of the malloc family with known sizes, in every way
 * that it can go: realloc that grows, shrinks, stays and moves, realloc(NULL),
 * realloc(p, 0), free(NULL), malloc(0), and each kind of failure.
 */
#include "target.h"

#include <malloc.h>

#define HUGE_SIZE ((size_t)PTRDIFF_MAX / 2)

static struct site malloc_site = {"by_malloc"};
static struct site calloc_site = {"by_calloc"};
static struct site realloc_site = {"by_realloc"};
static struct site reallocarray_site = {"by_reallocarray"};
static struct site posix_memalign_site = {"by_posix_memalign"};
static struct site aligned_alloc_site = {"by_aligned_alloc"};
static struct site memalign_site = {"by_memalign"};
static struct site valloc_site = {"by_valloc"};
static struct site pvalloc_site = {"by_pvalloc"};
static struct site zero_site = {"of_zero_bytes"};
static struct site null_site = {"free_of_null"};
static struct site failing_site = {"failing_allocations"};
static struct site kept_site = {"block_before_failed_realloc"};
static struct site failing_realloc_site = {"failing_reallocs"};

/* Blocks that stay live stay reachable too. */
static void *kept[64];
static unsigned kept_count;

static void keep(void *block)
{
	kept[kept_count++] = block;
}

/* 10 blocks of 100 to 1,000 bytes, 4 of them freed (100 to 400). */
NOIPA void by_malloc(void)
{
	for (int i = 1; i <= 10; i++) {
		size_t size = (size_t)i * 100;
		void *block = took(&malloc_site, malloc(size), size);
		if (i <= 4) {
			gone(&malloc_site, size);
			free(block);
		} else {
			keep(block);
		}
	}
}

/* 7 blocks of 3 to 9 times 11 bytes, 2 of them freed. */
NOIPA void by_calloc(void)
{
	for (size_t n = 3; n <= 9; n++) {
		void *block = took(&calloc_site, calloc(n, 11), n * 11);
		if (n <= 4) {
			gone(&calloc_site, n * 11);
			free(block);
		} else {
			keep(block);
		}
	}
}

/* A chain: fresh, the same size, up in small steps, up into a mapping, down again, freed by size 0. */
NOIPA void by_realloc(void)
{
	static const size_t chain[] = {24, 24, 40, 400, 4000, 40000, 400000, 800000, 300000, 3000, 30};
	struct site *const s = &realloc_site;
	size_t old = chain[0];
	void *block = resized(s, NULL, 0, realloc(NULL, old), old);
	for (size_t i = 1; i < COUNT_OF(chain); i++) {
		block = resized(s, s, old, realloc(block, chain[i]), chain[i]);
		old = chain[i];
	}
	void *rest = resized(s, s, old, realloc(block, 0), 0);
	if (rest) { /* musl keeps a block of no bytes */
		gone(s, 0);
		free(rest);
	}
	/* A second block moves because its successor is taken, and stays live. */
	void *first = took(s, malloc(5000), 5000);
	keep(took(s, malloc(64), 64));
	keep(resized(s, s, 5000, realloc(first, 50000), 50000));
}

NOIPA void by_reallocarray(void)
{
	struct site *const s = &reallocarray_site;
	void *block = resized(s, NULL, 0, reallocarray(NULL, 7, 9), 63);
	block = resized(s, s, 63, reallocarray(block, 70, 9), 630);
	keep(resized(s, s, 630, reallocarray(block, 5, 9), 45));
	void *other = resized(s, NULL, 0, reallocarray(NULL, 3, 3), 9);
	gone(s, 9);
	free(other);
}

/* 6 blocks with alignments of 16 to 512, 3 of them freed. */
NOIPA void by_posix_memalign(void)
{
	size_t align = 16;
	for (size_t i = 1; i <= 6; i++, align *= 2) {
		void *block = NULL;
		int failed = posix_memalign(&block, align, i * 1000);
		took(&posix_memalign_site, failed ? NULL : block, i * 1000);
		if (i % 2) {
			gone(&posix_memalign_site, i * 1000);
			free(block);
		} else {
			keep(block);
		}
	}
}

NOIPA void by_aligned_alloc(void)
{
	keep(took(&aligned_alloc_site, aligned_alloc(64, 640), 640));
	void *block = took(&aligned_alloc_site, aligned_alloc(4096, 8192), 8192);
	gone(&aligned_alloc_site, 8192);
	free(block);
}

NOIPA void by_memalign(void)
{
	keep(took(&memalign_site, memalign(32, 333), 333));
	void *block = took(&memalign_site, memalign(1024, 77), 77);
	gone(&memalign_site, 77);
	free(block);
}

NOIPA void by_valloc(void)
{
	keep(took(&valloc_site, valloc(1234), 1234));
	void *block = took(&valloc_site, valloc(4321), 4321);
	gone(&valloc_site, 4321);
	free(block);
}

#ifdef __GLIBC__
/* pvalloc rounds up to whole pages by itself; the request is what counts. */
NOIPA void by_pvalloc(void)
{
	keep(took(&pvalloc_site, pvalloc(5555), 5555));
	void *block = took(&pvalloc_site, pvalloc(1), 1);
	gone(&pvalloc_site, 1);
	free(block);
}
#else
static void by_pvalloc(void)
{
}
#endif

/* Blocks of no bytes are blocks all the same: 3 made, 1 freed. */
NOIPA void of_zero_bytes(void)
{
	keep(took(&zero_site, malloc(0), 0));
	keep(took(&zero_site, calloc(0, 8), 0));
	void *block = took(&zero_site, malloc(0), 0);
	gone(&zero_site, 0);
	free(block);
}

NOIPA void free_of_null(void)
{
	for (int i = 0; i < 5; i++) {
		null_site.free_null++;
		free(target_sink = NULL);
	}
}

/* 8 allocations that cannot succeed, 7 in C libraries that have no pvalloc. */
NOIPA void failing_allocations(void)
{
	struct site *const s = &failing_site;
	volatile size_t half = SIZE_MAX / 2, huge = HUGE_SIZE, odd = 3, align = 64;
	void *block = NULL;
	took(s, malloc(huge), huge);
	took(s, calloc(half + 1, 2), 0);                                       /* the product overflows to 0 */
	took(s, calloc(huge, 1), huge);                                        /* no such memory */
	took(s, posix_memalign(&block, odd, 100) ? NULL : block, 100);         /* EINVAL */
	took(s, posix_memalign(&block, align, huge) ? NULL : block, huge);     /* ENOMEM */
	took(s, aligned_alloc(align, huge), huge);
	took(s, memalign(align, huge), huge);
#ifdef __GLIBC__
	took(s, pvalloc(huge), huge);
#endif
}

NOIPA void *block_before_failed_realloc(size_t size)
{
	return took(&kept_site, malloc(size), size);
}

/* 4 reallocations that fail and leave their block live, the last without a block. */
NOIPA void failing_reallocs(void)
{
	struct site *const s = &failing_realloc_site;
	volatile size_t huge = HUGE_SIZE, half = SIZE_MAX / 2;
	void *first = block_before_failed_realloc(700);
	void *second = block_before_failed_realloc(900);
	resized(s, &kept_site, 700, realloc(first, huge), huge);
	resized(s, &kept_site, 700, reallocarray(first, half + 1, 2), half); /* to 0, which frees nothing all the same */
	resized(s, &kept_site, 900, realloc(second, huge), huge);
	resized(s, NULL, 0, realloc(NULL, huge), huge);
	keep(first);
	gone(&kept_site, 900);
	free(second);
}

int main(int argc, char **argv)
{
	static struct site *sites[] = {
		&malloc_site,       &calloc_site,   &realloc_site, &reallocarray_site, &posix_memalign_site,
		&aligned_alloc_site, &memalign_site, &valloc_site,  &pvalloc_site,      &zero_site,
		&null_site,         &failing_site,  &kept_site,    &failing_realloc_site,
	};
	target_begin(argc, argv);
	by_malloc();
	by_calloc();
	by_realloc();
	by_reallocarray();
	by_posix_memalign();
	by_aligned_alloc();
	by_memalign();
	by_valloc();
	/* jemalloc has no pvalloc: the C library's would serve, and its blocks are not jemalloc's to free. */
	if (argc < 3 || strcmp(argv[2], "no-pvalloc"))
		by_pvalloc();
	of_zero_bytes();
	free_of_null();
	failing_allocations();
	failing_reallocs();
	target_answer("every_function", 1, sites, COUNT_OF(sites));
	target_end();
	return 0;
}
