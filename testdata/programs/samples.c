/*
 * Many blocks of many sizes, for a tracer that records only some of them: small
 * and large ones, calls that turn into others inside (posix_memalign and
 * realloc(NULL) into malloc), blocks that grow and shrink, and every fourth
 * block kept. ROUNDS is how often all of it is done; nothing is random.
 *
 * With "fork" a child then frees its copies of the kept blocks, and ends.
 *
 *   samples run|attach [ROUNDS [fork]]
 */
#include "target.h"

#include <sys/wait.h>

static struct site small_site = {"of_small"};
static struct site mixed_site = {"of_mixed"};
static struct site calloc_site = {"of_calloc"};
static struct site aligned_site = {"of_aligned"};
static struct site grown_site = {"of_grown"};
static struct site huge_site = {"of_huge"};
static struct site kept_site = {"of_kept"};

/* Kept blocks are chained, so that all stay reachable. */
static void *kept;

static void keep(void *block)
{
	*(void **)block = kept;
	kept = block;
}

NOIPA void of_small(long rounds)
{
	for (long i = 0; i < rounds * 100; i++) {
		void *block = took(&small_site, malloc(40), 40);
		gone(&small_site, 40);
		free(block);
	}
}

NOIPA void of_mixed(long rounds)
{
	uint32_t random = 1;
	for (long i = 0; i < rounds * 50; i++) {
		random = random * 1664525 + 1013904223;
		size_t size = 1 + (random >> 8) % (i % 10 ? 500 : 20000);
		void *block = took(&mixed_site, malloc(size), size);
		gone(&mixed_site, size);
		free(block);
	}
}

NOIPA void of_kept(long rounds)
{
	for (long i = 0; i < rounds * 20; i++) {
		size_t size = 100 + i % 300;
		void *block = took(&kept_site, malloc(size), size);
		if (i % 4 == 0) {
			keep(block);
			continue;
		}
		gone(&kept_site, size);
		free(block);
	}
}

NOIPA void of_calloc(long rounds)
{
	for (long i = 0; i < rounds * 10; i++) {
		void *block = took(&calloc_site, calloc(16, 1 + i % 40), 16 * (1 + i % 40));
		gone(&calloc_site, 16 * (1 + i % 40));
		free(block);
	}
}

NOIPA void of_aligned(long rounds)
{
	for (long i = 0; i < rounds * 10; i++) {
		void *block = NULL;
		/* Up to an alignment of 16 it is malloc that does it. */
		int failed = posix_memalign(&block, i % 2 ? 16 : 64, 400);
		took(&aligned_site, failed ? NULL : block, 400);
		gone(&aligned_site, 400);
		free(block);
	}
}

NOIPA void of_grown(long rounds)
{
	static const size_t chain[] = {32, 320, 3200, 32000, 200, 20};
	struct site *const s = &grown_site;
	for (long i = 0; i < rounds; i++) {
		size_t old = chain[0];
		void *block = resized(s, NULL, 0, realloc(NULL, old), old);
		for (size_t k = 1; k < COUNT_OF(chain); k++) {
			block = resized(s, s, old, realloc(block, chain[k]), chain[k]);
			old = chain[k];
		}
		gone(s, old);
		free(block);
	}
}

/* 16 blocks of 1 MiB, half of them kept. */
NOIPA void of_huge(void)
{
	for (int i = 0; i < 16; i++) {
		void *block = took(&huge_site, malloc(1 << 20), 1 << 20);
		if (i % 2) {
			keep(block);
			continue;
		}
		gone(&huge_site, 1 << 20);
		free(block);
	}
}

static void free_copies(void)
{
	pid_t child = fork();
	while (child == 0 && kept) {
		void *next = *(void **)kept;
		free(kept);
		kept = next;
	}
	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	static struct site *sites[] = {&small_site, &mixed_site, &kept_site, &calloc_site, &aligned_site, &grown_site, &huge_site};
	long rounds = target_argument(argc, argv, 0, 200);
	target_begin(argc, argv);
	of_small(rounds);
	of_mixed(rounds);
	of_kept(rounds);
	of_calloc(rounds);
	of_aligned(rounds);
	of_grown(rounds);
	of_huge();
	if (argc > 3 && !strcmp(argv[3], "fork"))
		free_copies();
	target_answer("samples", 1, sites, COUNT_OF(sites));
	target_end();
	return 0;
}
