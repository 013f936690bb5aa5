/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loses blocks of sizes from 16 to 100,000 bytes in several threads, and keeps
 * others in every kind of place, after it has filled its allocator's caches. It
 * is for any allocator: what that has of blocks in its own memory must neither
 * hold a lost one, nor may the program's pointers that lie among it be passed over.
 *
 *   lost_blocks run|attach
 *
 * attach: it waits for a line on stdin first. Its lines are
 *
 *   case NAME SIZE definite|indirect|possible     one for each block that is not reachable
 *   ready
 *
 * Then it ends. Of its threads one has ended by then, the others stand still.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOIPA __attribute__((noipa))

enum { SIZES = 5, LOST = 20, KEPT = 10, THREADS = 4, BATCH = 300, STACK = 1 << 20, LARGE = 8 << 20, MOST_LARGE = 1200 };
static const size_t sizes[SIZES] = { 16, 100, 1000, 10000, 100000 };

struct link {
	struct link *next;
	void *block;
};

static void *volatile global[THREADS][SIZES][KEPT];
static struct link *volatile chain[THREADS];
static void *volatile *mapped[THREADS], *volatile *unseen[THREADS];
static _Thread_local void *volatile local[SIZES][KEPT];
static void *volatile large[MOST_LARGE];
static void *volatile spared[THREADS * SIZES * LOST];
static int spared_count;
static pthread_barrier_t done;

/* scrub overwrites what calls left on the stack and in vector registers. */
NOIPA static void scrub(void)
{
	volatile char room[32 << 10];
	memset((void *)room, 0, sizeof(room));
#if defined(__x86_64__)
	__asm__ volatile("pxor %%xmm0,%%xmm0\n pxor %%xmm1,%%xmm1\n pxor %%xmm2,%%xmm2\n pxor %%xmm3,%%xmm3\n"
			 "pxor %%xmm4,%%xmm4\n pxor %%xmm5,%%xmm5\n pxor %%xmm6,%%xmm6\n pxor %%xmm7,%%xmm7\n"
			 "pxor %%xmm8,%%xmm8\n pxor %%xmm9,%%xmm9\n pxor %%xmm10,%%xmm10\n pxor %%xmm11,%%xmm11\n"
			 "pxor %%xmm12,%%xmm12\n pxor %%xmm13,%%xmm13\n pxor %%xmm14,%%xmm14\n pxor %%xmm15,%%xmm15" ::
				 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
				   "xmm12", "xmm13", "xmm14", "xmm15");
#endif
}

NOIPA static void *take(size_t size)
{
	void *b = malloc(size);
	if (!b)
		abort();
	memset(b, 0, size);
	return b;
}

/* What is freed goes to the thread's cache and beyond; blocks come from there afterwards. */
NOIPA static void fill_caches(void)
{
	for (int s = 0; s < SIZES; s++) {
		int n = sizes[s] > 1000 ? BATCH / 10 : BATCH;
		void *some[BATCH];
		for (int i = 0; i < n; i++)
			some[i] = take(sizes[s]);
		for (int i = 0; i < n; i++)
			free(some[i]);
		memset(some, 0, sizeof(some));
		__asm__ volatile("" ::"r"(some) : "memory");
	}
}

/*
 * Half an old address beside a small number looks like an address near a multiple of
 * 4 GiB. A block that lies over one is kept, and another is lost.
 */
NOIPA static void lose_one(size_t size)
{
	for (;;) {
		void *b = take(size);
		uintptr_t first = (uintptr_t)b;
		if (first >> 32 == (first + size) >> 32)
			return;
		spared[__atomic_fetch_add(&spared_count, 1, __ATOMIC_SEQ_CST)] = b;
	}
}

NOIPA static void lose(void)
{
	for (int s = 0; s < SIZES; s++)
		for (int i = 0; i < LOST; i++)
			lose_one(sizes[s]);
	for (int i = 0; i < LOST; i++)
		*(void **)take(64) = take(200);
}

/*
 * Allocators know parts of the address space by addresses at multiples of 1 GiB. Blocks that
 * adjoin more or less are kept, untouched, until one of them lies over such an address, but no
 * multiple of 4 GiB; that one is lost. mimalloc puts none over such addresses.
 */
NOIPA static int lose_over_a_gigabyte(void)
{
	for (int i = 0; i < MOST_LARGE; i++) {
		large[i] = malloc(LARGE);
		uintptr_t first = (uintptr_t)large[i], multiple = (first + LARGE - 1) >> 30 << 30;
		if (first && multiple >= first && multiple << 32 != 0) {
			large[i] = NULL;
			return 1;
		}
	}
	return 0;
}

NOIPA static void keep(int t)
{
	for (int s = 0; s < SIZES; s++)
		for (int i = 0; i < KEPT; i++) {
			struct link *l = take(sizeof(*l));
			l->next = chain[t];
			l->block = take(sizes[s]);
			chain[t] = l;
			global[t][s][i] = take(sizes[s]);
			mapped[t][s * KEPT + i] = take(sizes[s]);
			unseen[t][s * KEPT + i] = take(sizes[s]);
			if (t != 1) /* that one ends, and its variables with it */
				local[s][i] = take(sizes[s]);
		}
	for (int i = 0; i < KEPT; i++)
		mapped[t][SIZES * KEPT + i] = (char *)take(5000) + 2000;
}

NOIPA static void work(int t)
{
	size_t room = 1 << 16;
	fill_caches();
	mapped[t] = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* Not by the C library's function, where it could be seen. */
	unseen[t] = (void *)syscall(SYS_mmap, NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mapped[t] == MAP_FAILED || unseen[t] == MAP_FAILED)
		abort();
	keep(t);
	lose();
	fill_caches();
	scrub();
}

static void *thread(void *number)
{
	work((int)(intptr_t)number);
	if ((intptr_t)number == 1)
		return NULL;
	pthread_barrier_wait(&done);
	for (;;)
		pause();
}

static void say(int gigabyte)
{
	for (int t = 0; t < THREADS; t++) {
		for (int s = 0; s < SIZES; s++)
			for (int i = 0; i < LOST; i++)
				printf("case lost %zu definite\n", sizes[s]);
		for (int i = 0; i < LOST; i++)
			printf("case lost_with_another 64 definite\ncase of_a_lost_one 200 indirect\n");
		for (int i = 0; i < KEPT; i++)
			printf("case interior 5000 possible\n");
	}
	if (gigabyte)
		printf("case lost_over_a_gigabyte %d definite\n", LARGE);
	puts("ready");
	fflush(stdout);
}

/*
 * The one that ends has a stack of ours, which goes with it: what it leaves there is no matter of
 * allocators. Its place may become a lost block's, so that what points there must not outlive this call.
 */
NOIPA static void start_threads(void)
{
	pthread_t threads[THREADS];
	pthread_attr_t own;
	void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED || pthread_attr_init(&own) || pthread_attr_setstack(&own, stack, STACK))
		abort();
	for (int t = 1; t < THREADS; t++)
		pthread_create(&threads[t], t == 1 ? &own : NULL, thread, (void *)(intptr_t)t);
	pthread_join(threads[1], NULL);
	munmap(stack, STACK);
}

int main(int argc, char **argv)
{
	static char out[1 << 12];
	char c;

	setvbuf(stdout, out, _IOFBF, sizeof(out));
	if (argc < 2 || (!strcmp(argv[1], "attach") && read(0, &c, 1) != 1))
		return 2;
	pthread_barrier_init(&done, NULL, THREADS - 1);
	start_threads();
	scrub();
	work(0);
	int gigabyte = lose_over_a_gigabyte();
	pthread_barrier_wait(&done);
	say(gigabyte);
	scrub();
	_exit(0);
}
