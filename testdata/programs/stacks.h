/*
 * What the programs about stacks share: allocate() records its own stack by
 * glibc's backtrace(), which unwinds by libgcc, and allocates a block of a size
 * that no other has; memtrace's stack of that block must be the same.
 *
 *   PROGRAM attach   print "ready PID", wait for a line on stdin, run, print
 *                    "CASE SIZE ADDRESS..." for each block, then "end", wait
 *                    again, exit; where it loads a library as it runs, call
 *                    it, print "loaded", wait for a line, and go on calling it
 *
 * The first address is in allocate() and differs from memtrace's by where in it
 * the call is. backtrace() shows the interrupted instruction of a signal.
 */
#ifndef STACKS_H
#define STACKS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef SHADOW_STACK
#include <execinfo.h>
#endif
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __clang__
#define NOIPA __attribute__((noinline, used))
#else
#define NOIPA __attribute__((noipa, used))
#endif
#define MAX_DEPTH 100
#define MAX_BLOCKS 6000

#ifdef __cplusplus
extern "C" {
#endif

#ifdef SHADOW_STACK
/*
 * musl has no backtrace(), and libgcc's unwinder does not link with it: the
 * functions note their return addresses themselves. The outermost frame is
 * that of _start, whose one call never returns.
 */
static void *shadow[MAX_DEPTH];
static int shadow_depth;
#define ENTER() (shadow[shadow_depth++] = __builtin_return_address(0))
#define LEAVE() (shadow_depth--)
extern unsigned char _start[];
static int allocate(int result);

static int backtrace(void **to, int limit)
{
	unsigned char *call = _start;
	int n = 0;

	to[n++] = (void *)allocate;
	for (int i = shadow_depth; i > 0 && n < limit - 1; i--)
		to[n++] = shadow[i - 1];
	while (*call != 0xe8)
		call++;
	to[n++] = call + 5;
	return n;
}
#else
#define ENTER()
#define LEAVE()
#endif

static struct record {
	const char *name;
	size_t size;
	int depth;
	void *stack[MAX_DEPTH];
} records[MAX_BLOCKS];
static int blocks;
static const char *volatile case_name = "none";
static void *volatile sink;

NOIPA static int allocate(int result)
{
	int i = __atomic_fetch_add(&blocks, 1, __ATOMIC_RELAXED);

	ENTER();
	if (i < MAX_BLOCKS) {
		records[i].name = case_name;
		records[i].size = 1000 + i;
		records[i].depth = backtrace(records[i].stack, MAX_DEPTH);
		sink = malloc(1000 + i);
	}
	LEAVE();
	return result;
}

static void print_records(void)
{
	int n = blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS;

	for (int i = 0; i < n; i++) {
		printf("%s %zu", records[i].name, records[i].size);
		for (int j = 0; j < records[i].depth; j++)
			printf(" %lx", (unsigned long)records[i].stack[j]);
		putchar('\n');
	}
	puts("end");
}

static void wait_for_line(void)
{
	while (getchar() != '\n' && !feof(stdin))
		;
}

NOIPA static int stacks_main(void (*run)(void))
{
	void *warm[4];
	static char out[1 << 16], in[256];

	ENTER();
	setvbuf(stdout, out, _IOFBF, sizeof(out));
	setvbuf(stdin, in, _IOLBF, sizeof(in));
	backtrace(warm, 4); /* loads libgcc, which allocates */
	printf("ready %d\n", getpid());
	fflush(stdout);
	wait_for_line();
	run();
	print_records();
	fflush(stdout);
	wait_for_line();
	LEAVE();
	return 0;
}

#ifdef __cplusplus
}
#endif
#endif
