/*
 * Blocks of all kinds that are allocated in one part of the program and freed
 * in the next one, behind so many other calls that a tracer which stands still
 * meanwhile cannot see it. Of the rest, some are kept, and a few are lost. It
 * stays on one processor.
 *
 *   freed_unseen attach [PAIRS]
 */
#include "target.h"

#include <sched.h>

#define EACH   3000 /* kept, and doomed */
#define LEAKED 10

static struct site kept_site = {"of_kept"};
static struct site doomed_site = {"of_doomed"};
static struct site leaked_site = {"of_leaked"};
static struct site churn_site = {"churn_loop"};

static void *volatile kept[EACH]; /* written only, which the compiler must not see */
static void *doomed[EACH];

/* Small ones that thread caches and fast bins take, larger ones, and some with a mapping of their own. */
static size_t size_of(int i)
{
	return i % 500 == 499 ? 200000 : 24 + (size_t)(i * 37) % 1500;
}

NOIPA void of_kept(int i)
{
	kept[i] = took(&kept_site, malloc(size_of(i)), size_of(i));
}

NOIPA void of_doomed(int i)
{
	doomed[i] = took(&doomed_site, malloc(size_of(i)), size_of(i));
}

NOIPA void of_leaked(void)
{
	took(&leaked_site, malloc(500), 500);
	target_sink = NULL;
}

NOIPA void churn_loop(long pairs)
{
	for (long i = 0; i < pairs; i++) {
		void *block = malloc(64);
		target_sink = block;
		free(block);
	}
	target_sink = NULL;
	churn_site.alloc += (uint64_t)pairs;
	churn_site.free += (uint64_t)pairs;
	churn_site.alloc_bytes += (uint64_t)pairs * 64;
}

NOIPA void end_doomed(void)
{
	for (int i = 0; i < EACH; i++) {
		gone(&doomed_site, size_of(i));
		free(doomed[i]);
		doomed[i] = NULL;
	}
}

/* No copy of a pointer is to stay on the stack. */
NOIPA void scrub(void)
{
	volatile char space[8192];
	for (size_t i = 0; i < sizeof(space); i++)
		space[i] = 0;
}

static void answer(void)
{
	static struct site *sites[] = {&kept_site, &doomed_site, &leaked_site, &churn_site};
	target_answer("freed_unseen", 1, sites, COUNT_OF(sites));
	target_end();
}

int main(int argc, char **argv)
{
	long pairs = target_argument(argc, argv, 0, 600000);
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		return 1;
	target_begin(argc, argv);
	for (int i = 0; i < EACH; i++) {
		of_kept(i);
		of_doomed(i);
		if (i < LEAKED)
			of_leaked();
	}
	scrub();
	answer();
	churn_loop(pairs);
	end_doomed();
	scrub();
	answer();
	return 0;
}
