/*
 * Grows by known amounts, each in a function of its own, and prints for each function how many bytes of
 * its touched pages are resident at the end. "attach" and "run" are as in target.h. With a number as second
 * argument it grows slowly for so many tenths of a second instead, beside a cache that fills in the first
 * third and stops. It uses stdio, which allocates: that is not in its answer.
 *
 * The loops write one byte a page, so that each page is touched by the function itself.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB (1UL << 20)
#define NOINLINE __attribute__((noinline, noclone))

static size_t page;
static int child;

#define TOUCH(p, n)                                         \
	do {                                                \
		volatile char *from = (volatile char *)(p); \
		for (size_t at = 0; at < (n); at += page)   \
			from[at] = 1;                       \
	} while (0)

static void *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	madvise(p, bytes, MADV_NOHUGEPAGE);
	return p;
}

static NOINLINE size_t grow_malloc(void)
{
	size_t n = 0;

	for (int i = 0; i < 200; i++) { /* from the heap, not by mappings */
		char *p = malloc(100000);

		TOUCH(p, 100000);
		n += 100000;
	}
	return n;
}

static NOINLINE size_t grow_mmap(void)
{
	char *p = map(24 * MIB);

	TOUCH(p, 24 * MIB);
	return 24 * MIB;
}

static NOINLINE size_t grow_brk(void)
{
	char *p = sbrk(12 * MIB);

	TOUCH(p, 12 * MIB);
	return 12 * MIB;
}

/* The huge pages that the kernel gives are its own choice: all of the memory is touched either way. */
static NOINLINE size_t grow_huge(void)
{
	char *p = mmap(NULL, 34 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *aligned = (char *)(((unsigned long)p + 2 * MIB - 1) & ~(2 * MIB - 1));

	madvise(aligned, 32 * MIB, MADV_HUGEPAGE);
	TOUCH(aligned, 32 * MIB);
	return 32 * MIB;
}

/* Mapped, unmapped and mapped again: what is left is the last round's. */
static NOINLINE size_t reuse(void)
{
	char *p = NULL;

	for (int i = 0; i < 5; i++) {
		if (p)
			munmap(p, 10 * MIB);
		p = map(10 * MIB);
		TOUCH(p, 10 * MIB);
	}
	return 10 * MIB;
}

static NOINLINE char *give_back(size_t *left)
{
	char *p = map(16 * MIB);

	TOUCH(p, 16 * MIB);
	*left = 4 * MIB;
	return p;
}

static NOINLINE size_t read_into(void)
{
	char *p = map(6 * MIB);
	int zero = open("/dev/zero", O_RDONLY);

	for (size_t got = 0; got < 6 * MIB; ) {
		ssize_t n = read(zero, p + got, 6 * MIB - got);

		if (n <= 0)
			abort();
		got += n;
	}
	close(zero);
	return 6 * MIB;
}

static NOINLINE size_t parents(char *p)
{
	TOUCH(p, 20 * MIB);
	return 20 * MIB;
}

static NOINLINE size_t copied(char *p)
{
	TOUCH(p, 8 * MIB);
	return 8 * MIB;
}

/* A child writes to 8 of the 20 MiB that it has from its parent, says so, and waits for the parent's end. */
static void fork_and_copy(char *p)
{
	int done[2], ends[2];
	char c;

	if (pipe(done) || pipe(ends))
		abort();
	child = fork();
	if (child == 0) {
		close(ends[1]);
		copied(p);
		if (write(done[1], "x", 1) != 1)
			abort();
		while (read(ends[0], &c, 1) > 0)
			;
		_exit(0);
	}
	if (read(done[0], &c, 1) != 1)
		abort();
}

static void all(void)
{
	size_t left, malloced = grow_malloc(), mapped = grow_mmap(), broken = grow_brk();
	size_t huge = grow_huge(), again = reuse(), given = read_into();
	char *part = give_back(&left), *shared = map(20 * MIB);
	size_t before = parents(shared);

	madvise(part, 8 * MIB, MADV_DONTNEED);
	munmap(part + 8 * MIB, 4 * MIB);
	fork_and_copy(shared);
	printf("{\"program\":\"first_touch\",\"final\":true,\"child\":%d,\"touched\":{"
	       "\"grow_malloc\":%zu,\"grow_mmap\":%zu,\"grow_brk\":%zu,\"grow_huge\":%zu,\"reuse\":%zu,\"read_into\":%zu,"
	       "\"give_back\":%zu,\"parents\":%zu},\"child_touched\":{\"copied\":%zu,\"parents\":%zu}}\n",
	       child, malloced, mapped, broken, huge, again, given, left, before, 8 * MIB, before - 8 * MIB);
}

static NOINLINE void leak_slowly(char *p) { TOUCH(p, 64 * 1024); }
static NOINLINE void fill_cache(char *p) { TOUCH(p, 64 * 1024); }

static void slowly(int tenths)
{
	struct timespec tick = { .tv_nsec = 100000000 };
	char *leak = map(64 * 1024UL * tenths), *cache = map(64 * 1024UL * tenths);

	for (int i = 0; i < tenths; i++) {
		leak_slowly(leak + 64 * 1024UL * i);
		if (i < tenths / 3)
			fill_cache(cache + 64 * 1024UL * i);
		nanosleep(&tick, NULL);
	}
	printf("{\"program\":\"first_touch\",\"final\":true,\"touched\":{\"leak_slowly\":%lu,\"fill_cache\":%lu}}\n",
	       64 * 1024UL * tenths, 64 * 1024UL * (tenths / 3));
}

int main(int argc, char **argv)
{
	int waits = argc > 1 && !strcmp(argv[1], "attach"), tenths = argc > 2 ? atoi(argv[2]) : 0;
	char line[64];

	page = sysconf(_SC_PAGESIZE);
	if (waits) {
		printf("ready %d\n", getpid());
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			return 1;
	}
	if (tenths)
		slowly(tenths);
	else
		all();
	fflush(stdout);
	return waits && !fgets(line, sizeof(line), stdin);
}
