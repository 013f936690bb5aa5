/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Holds chains of blocks from each kind of root, and says from which:
 *
 *   case KIND SIZE reachable     (a block of a chain; SIZE is that of no other kind)
 *   block ADDRESS SIZE
 *   ready
 *
 * Some are held from two kinds, and count for the first. Waits for the end of stdin.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOIPA __attribute__((noipa))

enum { GLOBALS, THREAD_LOCAL, STACKS, SHARED, ANONYMOUS, HEAP, KINDS, CHAIN = 3 };

/* The page above the mapping that is a root is as one of malloc's for a large block: to the kernel, the two are one. */
enum { PAGE = 1 << 12, LARGE = 4000 };

static const char *const names[KINDS] = { "globals", "thread_local", "stacks", "shared", "anonymous", "heap_before_attach" };
static void *volatile initialised = (void *)&initialised; /* .data */
static void *volatile zero;                               /* .bss */
static void *volatile beside;
static __thread void *volatile own;
static char said[1 << 13];
static size_t length;
static sem_t up;

/* chain makes three blocks, each of which points to the next. */
NOIPA static void **chain(int kind)
{
	void **block[CHAIN];

	for (int i = CHAIN - 1; i >= 0; i--) {
		size_t size = 1000 + 100 * (size_t)kind;

		block[i] = calloc(1, size);
		if (i < CHAIN - 1)
			block[i][5] = block[i + 1];
		length += (size_t)snprintf(said + length, sizeof(said) - length, "case %s %zu reachable\nblock %p %zu\n", names[kind], size,
					   (void *)block[i], size);
	}
	return block[0];
}

NOIPA static void *thread(void *unused)
{
	void *volatile local = chain(STACKS);

	own = chain(THREAD_LOCAL);
	sem_post(&up);
	for (;;)
		pause();
	return local;
}

NOIPA static void hold(void)
{
	void *volatile *mapped = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *volatile *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	void *volatile *untold = malloc(64); /* as of before an attach */

	own = chain(THREAD_LOCAL);
	zero = chain(GLOBALS);
	initialised = chain(GLOBALS);
	beside = (char *)mapped + PAGE + 16;
	length += (size_t)snprintf(said + length, sizeof(said) - length, "case globals %d reachable\nblock %p %d\n", LARGE, beside, LARGE);
	mapped[7] = chain(ANONYMOUS);
	shared[7] = chain(SHARED);
	untold[3] = chain(HEAP);
	shared[8] = ((void **)zero)[5]; /* what is held twice counts for the first */
	mapped[8] = mapped[9] = shared[7];
}

int main(void)
{
	void *volatile local = chain(STACKS);
	pthread_t t;
	char c;

	sem_init(&up, 0, 0);
	hold();
	pthread_create(&t, NULL, thread, NULL);
	sem_wait(&up);
	strcpy(said + length, "ready\n");
	if (write(1, said, length + 6) != (ssize_t)length + 6)
		return 3;
	memset(said, 0, sizeof(said));
	while (read(0, &c, 1) > 0)
		;
	return local == NULL;
}
