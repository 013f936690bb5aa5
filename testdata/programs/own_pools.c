/*
 * Pools of its own: blocks that end with their pool, which calls the program
 * back as it ends. A pool's memory is from malloc, in pieces that are as large
 * as its blocks need.
 */
#include "target.h"

#define PIECES 64

struct pool {
	char *pieces[PIECES];
	int used;
	void (*ending)(struct pool *);
	void *kept; /* by the program, from malloc */
};

static struct site drop_site = {"dropped"};
static struct site clear_site = {"cleared"};
static struct site current_site = {"from_current"};
static struct site call_site = {"call_back"};
static struct site own_site = {"of_malloc"};
static struct site held_site = {"held"};

struct pool *current_pool; /* a symbol, for pool=current_pool */

NOIPA void *pool_alloc(struct pool *p, size_t size)
{
	char *piece = malloc(size + 16);
	p->pieces[p->used++] = piece;
	return piece + 16;
}

NOIPA void *alloc_here(size_t size)
{
	return pool_alloc(current_pool, size);
}

NOIPA void pool_clear(struct pool *p)
{
	if (p->ending)
		p->ending(p);
	for (int i = 0; i < p->used; i++)
		free(p->pieces[i]);
	p->used = 0;
}

NOIPA void pool_drop(struct pool *p)
{
	pool_clear(p);
	p->ending = NULL;
}

static struct pool first, second, third;

/* 30 blocks of 100 bytes that end together, 10 of 20 bytes that stay. */
NOIPA void dropped(void)
{
	for (int i = 0; i < 30; i++)
		took(&drop_site, pool_alloc(&first, 100), 100);
	for (int i = 0; i < 30; i++)
		gone(&drop_site, 100);
	pool_drop(&first);
	for (int i = 0; i < 10; i++)
		took(&drop_site, pool_alloc(&first, 20), 20);
}

/* A block of malloc's that only one of a pool's points to, which nothing points to. */
NOIPA void held(void)
{
	void **block = took(&held_site, pool_alloc(&first, 8), 8);
	*block = took(&held_site, malloc(24), 24);
	target_sink = NULL;
}

/* 5 times 20 blocks of 50 bytes, of which the last 20 stay. */
NOIPA void cleared(void)
{
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 20; i++)
			took(&clear_site, pool_alloc(&second, 50), 50);
		if (round == 4)
			break;
		for (int i = 0; i < 20; i++)
			gone(&clear_site, 50);
		pool_clear(&second);
	}
}

/* 12 blocks of 33 bytes, 7 of them in a pool that ends. */
NOIPA void from_current(void)
{
	current_pool = &third;
	for (int i = 0; i < 7; i++)
		took(&current_site, alloc_here(33), 33);
	current_pool = &second;
	for (int i = 0; i < 5; i++)
		took(&current_site, alloc_here(33), 33);
	for (int i = 0; i < 7; i++)
		gone(&current_site, 33);
	pool_drop(&third);
}

/* As its pool ends: frees what malloc gave before, and takes 3 blocks more, one of which it frees. */
NOIPA void call_back(struct pool *p)
{
	gone(&own_site, 70);
	free(p->kept);
	for (int i = 0; i < 3; i++)
		p->kept = took(&call_site, malloc(15), 15);
	gone(&call_site, 15);
	free(p->kept);
	took(&call_site, pool_alloc(&first, 9), 9);
}

/* 4 blocks of 70 bytes, one of them freed as a pool ends. */
NOIPA void of_malloc(void)
{
	for (int i = 0; i < 4; i++)
		third.kept = took(&own_site, malloc(70), 70);
	third.ending = call_back;
	pool_drop(&third);
}

int main(int argc, char **argv)
{
	target_begin(argc, argv);
	dropped();
	held();
	cleared();
	from_current();
	of_malloc();
	static struct site *sites[] = {&drop_site, &clear_site, &current_site, &call_site, &own_site, &held_site};
	target_answer("own_pools", 1, sites, COUNT_OF(sites));
	target_end();
	return 0;
}
