/*
 * Calls the entry points that an allocator of its own (libentries.c) has beside malloc.
 * Those of region_alloc, which nobody knows, are counted apart: blocks that it frees by free.
 * Arguments: blocks of region_alloc that are freed (0), of as many half are kept; MiB that it maps by
 * the system call itself, and writes to (0).
 */
#include "target.h"
#include <sys/mman.h>
#include <sys/syscall.h>

void *moz_arena_malloc(size_t, size_t);
void *moz_arena_calloc(size_t, size_t, size_t);
void *moz_arena_realloc(size_t, void *, size_t);
void *moz_arena_memalign(size_t, size_t, size_t);
void moz_arena_free(size_t, void *);
void *rpmalloc(size_t);
void *rpaligned_calloc(size_t, size_t, size_t);
void *rpaligned_realloc(void *, size_t, size_t, size_t, unsigned);
void rpfree(void *);
void *region_alloc(const char *, size_t);

static struct site arena_site = {"in_arena"};
static struct site rp_site = {"by_rpmalloc"};
static struct site plain_site = {"plainly"};

NOIPA void in_arena(void)
{
	void *a = took(&arena_site, moz_arena_malloc(1, 1000), 1000);
	void *b = took(&arena_site, moz_arena_calloc(2, 7, 30), 210);

	took(&arena_site, moz_arena_memalign(2, 16, 77), 77);
	b = resized(&arena_site, &arena_site, 210, moz_arena_realloc(2, b, 500), 500);
	gone(&arena_site, 1000);
	free(a);
	a = took(&arena_site, moz_arena_malloc(1, 90), 90);
	gone(&arena_site, 90);
	moz_arena_free(1, a);
	target_sink = b;
}

NOIPA void by_rpmalloc(void)
{
	void *a = took(&rp_site, rpmalloc(60), 60);
	void *b = took(&rp_site, rpaligned_calloc(16, 5, 9), 45);

	b = resized(&rp_site, &rp_site, 45, rpaligned_realloc(b, 16, 88, 45, 0), 88);
	gone(&rp_site, 60);
	rpfree(a);
	target_sink = b;
}

NOIPA void plainly(void)
{
	void *a = took(&plain_site, malloc(100), 100);

	took(&plain_site, malloc(40), 40);
	gone(&plain_site, 100);
	free(a);
}

int main(int argc, char **argv)
{
	struct site *sites[] = {&arena_site, &rp_site, &plain_site};
	long calls = target_argument(argc, argv, 0, 0), mib = target_argument(argc, argv, 1, 0);

	target_begin(argc, argv);
	for (int i = 0; i < 10; i++) {
		in_arena();
		by_rpmalloc();
		plainly();
	}
	for (long i = 0; i < calls; i++) {
		void *block = region_alloc("here", 300);

		target_sink = block;
		free(block);
		if (i & 1)
			target_sink = region_alloc("here", 600);
	}
	if (mib > 0) {
		char *mapped = (char *)syscall(SYS_mmap, NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);

		if (mapped == MAP_FAILED)
			return 1;
		memset(mapped, 1, mib << 20);
	}
	target_answer("entries", 1, sites, COUNT_OF(sites));
	say(",\"unseen_frees\":%ld,\"unseen_live\":%ld", calls, calls / 2);
	target_end();
	return 0;
}
