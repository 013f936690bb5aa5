/*
 * What a program that needs its own mmap lock waits for others who hold it.
 *
 * One thread maps, touches and unmaps 64 KiB in a loop, in turns of 16, and
 * notes for how long it was blocked; a heap of the given MiB is there to be read meanwhile.
 * Arguments: MiB of heap, file for pairs (address, size) of 64-bit words. Prints
 * "ready 0 0"; for each line on stdin it runs for a second and prints: turns,
 * and in ns the longest time and the 99.9th percentile of the times for which
 * it was blocked in a turn: by the clock, less the time that it had a processor
 * or waited for one (/proc/thread-self/schedstat), so that load does not count;
 * and only if it gave up the processor by itself, as what waits for a lock does:
 * what a hypervisor takes away from both is no wait.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* busy is for how long the thread had a processor, or waited for one. */
static uint64_t busy(int schedstat)
{
	char text[128];
	ssize_t n = pread(schedstat, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = 0;
	char *end;
	uint64_t ran = strtoull(text, &end, 10);
	return ran + strtoull(end, NULL, 10);
}

/* sleeps is how often the thread gave up its processor to wait for something. */
static long sleeps(void)
{
	struct rusage u;
	return getrusage(RUSAGE_THREAD, &u) ? 0 : u.ru_nvcsw;
}

enum { SIZE = 64 << 10, BUCKETS = 1 << 16, STEP = 1000, TURNS = 16 };

static void **volatile blocks;

static uint32_t buckets[BUCKETS]; /* turns by us */

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	FILE *list = fopen(argv[2], "w");
	if (!list)
		return 3;
	size_t count = strtoull(argv[1], NULL, 10) << 10;
	blocks = malloc(count * sizeof(*blocks));
	int schedstat = open("/proc/thread-self/schedstat", O_RDONLY);
	if (schedstat < 0)
		return 4;
	uint64_t pair[2] = {(uintptr_t)blocks, count * sizeof(*blocks)};
	fwrite(pair, sizeof(pair), 1, list);
	for (size_t i = 0; i < count; i++) {
		blocks[i] = malloc(1000);
		memset(blocks[i], 1, 1000);
		pair[0] = (uintptr_t)blocks[i], pair[1] = 1000;
		fwrite(pair, sizeof(pair), 1, list);
	}
	fclose(list);
	printf("ready 0 0\n");
	fflush(stdout);
	char line[16];
	while (read(0, line, 1) > 0) {
		memset(buckets, 0, sizeof(buckets));
		uint64_t longest = 0, turns = 0, began = now();
		for (uint64_t at = began, then; at - began < 1000000000; at = then) {
			uint64_t was = busy(schedstat);
			long slept = sleeps();
			at = now();
			for (int k = 0; k < TURNS; k++) {
				char *m = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
				for (size_t i = 0; i < SIZE; i += 4096)
					m[i] = 1;
				munmap(m, SIZE);
			}
			then = now();
			uint64_t ran = busy(schedstat) - was, blocked = then - at > ran ? then - at - ran : 0;
			if (sleeps() == slept)
				blocked = 0;
			turns += TURNS;
			longest = blocked > longest ? blocked : longest;
			buckets[blocked / STEP < BUCKETS ? blocked / STEP : BUCKETS - 1] += TURNS;
		}
		uint64_t left = turns / 1000, percentile = BUCKETS - 1;
		while (percentile > 0 && left >= buckets[percentile])
			left -= buckets[percentile--];
		printf("%llu %llu %llu\n", (unsigned long long)turns, (unsigned long long)longest, (unsigned long long)(percentile + 1) * STEP);
		fflush(stdout);
	}
	return 0;
}
