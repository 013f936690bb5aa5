/*
 * Temporary allocations: freed by the thread that made them, with no
 * allocation of that thread in between. Argument: rounds (1,000).
 */
#include "target.h"

#include <pthread.h>

#define HELD 100

static struct site immediate_site = {"immediate"};
static struct site outer_site = {"outer"};
static struct site inner_site = {"inner"};
static struct site elsewhere_site = {"freed_elsewhere"};
static struct site held_site = {"held"};
static void *held_blocks[HELD];

/* Temporary each time. */
NOIPA void immediate(long rounds)
{
	for (long i = 0; i < rounds; i++) {
		void *block = took(&immediate_site, malloc(48), 48);
		immediate_site.temporary++;
		gone(&immediate_site, 48);
		free(block);
	}
}

NOIPA void *outer(void)
{
	return took(&outer_site, malloc(64), 64);
}

NOIPA void *inner(void)
{
	return took(&inner_site, malloc(32), 32);
}

/* The inner block is temporary, the outer one, with an allocation in its life, is not. */
static void nested(long rounds)
{
	for (long i = 0; i < rounds; i++) {
		void *first = outer();
		void *second = inner();
		inner_site.temporary++;
		gone(&inner_site, 32);
		free(second);
		gone(&outer_site, 64);
		free(first);
	}
}

NOIPA void *freed_elsewhere(void)
{
	return took(&elsewhere_site, malloc(80), 80);
}

static void *free_here(void *block)
{
	free(block);
	return NULL;
}

/* Freed by another thread: not temporary. */
static void across_threads(void)
{
	for (int i = 0; i < 20; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, free_here, freed_elsewhere()))
			_exit(1);
		pthread_join(thread, NULL);
		gone(&elsewhere_site, 80);
	}
}

/* All made before the first is freed: only the last one freed first would be temporary, so free in order. */
NOIPA void held(void)
{
	for (int i = 0; i < HELD; i++)
		held_blocks[i] = took(&held_site, malloc(128), 128);
	for (int i = 0; i < HELD / 2; i++) {
		gone(&held_site, 128);
		free(held_blocks[i]);
		held_blocks[i] = NULL;
	}
}

int main(int argc, char **argv)
{
	static struct site *sites[] = {&immediate_site, &outer_site, &inner_site, &elsewhere_site, &held_site};
	long rounds = target_argument(argc, argv, 0, 1000);
	target_begin(argc, argv);
	immediate(rounds);
	nested(rounds);
	across_threads();
	held();
	target_answer("temporary", 1, sites, COUNT_OF(sites));
	target_end();
	return 0;
}
