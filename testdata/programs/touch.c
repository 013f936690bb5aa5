/*
 * Allocates known blocks and touches a known part of their pages. The answer
 * adds to each site what mincore(2) says: resident_bytes (bytes of its live
 * blocks that lie in resident pages) and untouched_bytes (the rest).
 */
#include "target.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#define LEAST_PAGE 4096UL
#define BLOCKS 8
#define BIG    (1UL << 20)
#define SMALL  1000

static struct site untouched_site = {"never_touched"};
static struct site half_site = {"half_touched"};
static struct site full_site = {"fully_touched"};
static struct site small_site = {"small_and_touched"};
static size_t page; /* bytes */
static char *untouched[BLOCKS], *half[BLOCKS], *full[BLOCKS], *small[BLOCKS * 16];

NOIPA void never_touched(void)
{
	for (int i = 0; i < BLOCKS; i++)
		untouched[i] = (char *)took(&untouched_site, malloc(BIG), BIG);
}

/* Every second page. */
NOIPA void half_touched(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		half[i] = (char *)took(&half_site, malloc(BIG), BIG);
		for (size_t at = 0; at < BIG; at += 2 * page)
			((volatile char *)half[i])[at] = 1;
	}
}

NOIPA void fully_touched(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		full[i] = (char *)took(&full_site, malloc(BIG), BIG);
		memset(full[i], 1, BIG);
	}
}

NOIPA void small_and_touched(void)
{
	for (int i = 0; i < BLOCKS * 16; i++) {
		small[i] = (char *)took(&small_site, malloc(SMALL), SMALL);
		memset(small[i], 1, SMALL);
	}
}

/* resident sums the bytes of a block that lie in pages which mincore calls resident. */
static uint64_t resident(const char *block, size_t size)
{
	static unsigned char pages[BIG / LEAST_PAGE + 2];
	uintptr_t from = (uintptr_t)block & ~(page - 1), to = (uintptr_t)block + size;
	uint64_t sum = 0;
	if (mincore((void *)from, to - from, pages))
		_exit(1);
	for (uintptr_t at = from; at < to; at += page) {
		uintptr_t first = at < (uintptr_t)block ? (uintptr_t)block : at;
		uintptr_t last = at + page > to ? to : at + page;
		if (pages[(at - from) / page] & 1)
			sum += last - first;
	}
	return sum;
}

static void say_pages(const struct site *s, char **blocks, int count, size_t size, const char *after)
{
	uint64_t sum = 0;
	for (int i = 0; i < count; i++)
		sum += resident(blocks[i], size);
	say("{\"function\":\"%s\",\"resident_bytes\":%llu,\"untouched_bytes\":%llu}%s", s->function,
	    (unsigned long long)sum, (unsigned long long)(s->live_bytes - sum), after);
}

int main(int argc, char **argv)
{
	static struct site *sites[] = {&untouched_site, &half_site, &full_site, &small_site};
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* a huge page would touch its neighbours */
	page = (size_t)sysconf(_SC_PAGESIZE);
	target_begin(argc, argv);
	never_touched();
	half_touched();
	fully_touched();
	small_and_touched();
	target_answer("touch", 1, sites, COUNT_OF(sites));
	say(",\"pages\":[");
	say_pages(&untouched_site, untouched, BLOCKS, BIG, ",");
	say_pages(&half_site, half, BLOCKS, BIG, ",");
	say_pages(&full_site, full, BLOCKS, BIG, ",");
	say_pages(&small_site, small, BLOCKS * 16, SMALL, "]");
	target_end();
	return 0;
}
