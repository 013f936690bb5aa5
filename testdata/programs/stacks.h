/*
 * What the programs about stacks share: allocate() records its own stack by
 * glibc's backtrace(), which unwinds by libgcc, and allocates a block of a size
 * that no other has; memtrace's stack of that block must be the same.
 *
 *   PROGRAM attach   print "ready PID", wait for a line on stdin, run, print
 *                    "CASE SIZE ADDRESS..." for each block, then "end", wait
 *                    again, exit
 *
 * The first address is in allocate() and differs from memtrace's by where in it
 * the call is. backtrace() shows the interrupted instruction of a signal.
 */
#ifndef STACKS_H
#define STACKS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <execinfo.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOIPA __attribute__((noipa, used))
#define MAX_DEPTH 100
#define MAX_BLOCKS 6000

#ifdef __cplusplus
extern "C" {
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

	if (i < MAX_BLOCKS) {
		records[i].name = case_name;
		records[i].size = 1000 + i;
		records[i].depth = backtrace(records[i].stack, MAX_DEPTH);
		sink = malloc(1000 + i);
	}
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

static int stacks_main(void (*run)(void))
{
	void *warm[4];
	static char out[1 << 16], in[256];

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
	return 0;
}

#ifdef __cplusplus
}
#endif
#endif
