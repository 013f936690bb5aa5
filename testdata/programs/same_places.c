/*
 * An allocator whose functions all begin at the start of a page, called by
 * turns: what tells functions apart by the low bits of their address takes
 * them for one. Argument: rounds (20,000).
 */
#include "target.h"

#define AT_PAGE __attribute__((noipa, used, aligned(4096)))

static struct site turns_site = {"turns"};

#define BLOCKS 64
static union block {
	union block *next;
	char bytes[64];
} blocks[BLOCKS];
static union block *free_blocks;
static int used_blocks;

static inline __attribute__((always_inline)) void *block(size_t size)
{
	union block *b = free_blocks;

	if (size > sizeof(*b))
		return NULL;
	if (b) {
		free_blocks = b->next;
		return b;
	}
	return used_blocks < BLOCKS ? &blocks[used_blocks++] : NULL;
}

AT_PAGE void *malloc(size_t size)
{
	return block(size);
}

AT_PAGE void *calloc(size_t count, size_t size)
{
	volatile char *bytes = block(count * size);

	for (size_t i = 0; bytes && i < count * size; i++)
		bytes[i] = 0;
	return (void *)bytes;
}

AT_PAGE void free(void *address)
{
	union block *b = address;

	if (b < blocks || b >= blocks + BLOCKS)
		return;
	b->next = free_blocks;
	free_blocks = b;
}

NOIPA void turns(long rounds)
{
	for (long i = 0; i < rounds; i++) {
		void *first = took(&turns_site, malloc(48), 48);
		void *second = took(&turns_site, calloc(2, 24), 48);
		gone(&turns_site, 48);
		free(first);
		gone(&turns_site, 48);
		free(second);
	}
}

int main(int argc, char **argv)
{
	static struct site *sites[] = {&turns_site};
	long rounds = target_argument(argc, argv, 0, 20000);
	target_begin(argc, argv);
	turns(rounds);
	target_answer("same_places", 1, sites, COUNT_OF(sites));
	target_end();
	return 0;
}
