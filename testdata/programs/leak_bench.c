/*
 * A big heap to scan: a hash table whose chains hold nodes with a payload each.
 * Neighbours in a chain are far apart in memory, or with "near" beside each other.
 * Arguments: MiB of heap, file to write pairs (address, size) of 64-bit words to, near|far.
 * Loses one payload in a thousand; prints "ready", how many those are and their bytes, a line with the size of each,
 * and waits for the end of stdin.
 * Compiled with -DLSAN -fsanitize=leak it has LeakSanitizer check itself instead, and prints the ns that took.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef LSAN
#include <sanitizer/lsan_interface.h>
#endif

struct node {
	struct node *next;
	uint64_t key;
	char *payload;
	struct node *previous;
};

static uint64_t state = 88172645463325252u;

static uint64_t any(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static struct node **table;
static size_t lost_sizes[1 << 16];

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	FILE *list = fopen(argv[2], "w");
	if (!list)
		return 3;
	uint64_t limit = strtoull(argv[1], NULL, 10) << 20, total = 0, made = 0, lost = 0, lost_bytes = 0, pair[2];
	int near = argc > 3 && !strcmp(argv[3], "near");
	size_t buckets = limit / 1024 + 1;
	table = calloc(buckets, sizeof(*table));
	pair[0] = (uintptr_t)table, pair[1] = buckets * sizeof(*table);
	fwrite(pair, sizeof(pair), 1, list);
	while (total < limit) {
		struct node *n = malloc(sizeof(*n));
		size_t size = 16 + any() % 1550;
		n->key = any();
		n->payload = malloc(size);
		memset(n->payload, (int)(n->key & 0x7f), size);
		struct node **bucket = &table[near ? made++ / 2 % buckets : n->key % buckets];
		n->next = *bucket;
		n->previous = NULL;
		if (*bucket)
			(*bucket)->previous = n;
		*bucket = n;
		pair[0] = (uintptr_t)n, pair[1] = sizeof(*n);
		fwrite(pair, sizeof(pair), 1, list);
		pair[0] = (uintptr_t)n->payload, pair[1] = size;
		fwrite(pair, sizeof(pair), 1, list);
		total += sizeof(*n) + size;
		if (any() % 1000 == 0) {
			n->payload = NULL;
			if (lost == sizeof(lost_sizes) / sizeof(*lost_sizes))
				return 4;
			lost_sizes[lost++] = size;
			lost_bytes += size;
		}
	}
	fclose(list);
#ifdef LSAN
	struct timespec from, to;
	clock_gettime(CLOCK_MONOTONIC, &from);
	int found = __lsan_do_recoverable_leak_check();
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("%d %.0f\n", found, (to.tv_sec - from.tv_sec) * 1e9 + to.tv_nsec - from.tv_nsec);
	fflush(stdout);
	_exit(0);
#endif
	printf("ready %llu %llu\n", (unsigned long long)lost, (unsigned long long)lost_bytes);
	for (uint64_t i = 0; i < lost; i++)
		printf("%zu%c", lost_sizes[i], i + 1 < lost ? ' ' : '\n');
	fflush(stdout);
	char c;
	while (read(0, &c, 1) > 0)
		;
	return 0;
}
