/*
 * GLib's allocation functions, by their callers, and slices, alone and in
 * chains. Lists take slices from within the library.
 */
#include "target.h"

#include <glib.h>

static struct site plain_site = {"plain"};
static struct site grown_site = {"grown"};
static struct site slice_site = {"slices"};
static struct site chain_site = {"chained"};
static struct site list_site = {"lists"};
static struct site string_site = {"strings"};

struct link {
	char before[16];
	struct link *next;
	char after[8];
};

/* 10 blocks of each of 8 functions, half of them freed. */
NOIPA void plain(void)
{
	for (int i = 0; i < 10; i++) {
		void *blocks[] = {
			took(&plain_site, g_malloc(40), 40), took(&plain_site, g_malloc0(41), 41),
			took(&plain_site, g_malloc_n(6, 7), 42), took(&plain_site, g_malloc0_n(1, 43), 43),
			took(&plain_site, g_try_malloc(44), 44), took(&plain_site, g_try_malloc0(45), 45),
			took(&plain_site, g_try_malloc_n(2, 23), 46), took(&plain_site, g_aligned_alloc(4, 16, 64), 64),
		};
		if (i % 2)
			continue;
		for (int k = 0; k < 8; k++)
			gone(&plain_site, k < 7 ? 40 + k : 64);
		for (int k = 0; k < 7; k++)
			g_free(blocks[k]);
		g_aligned_free(blocks[7]);
	}
}

/* One block that grows 5 times. */
NOIPA void grown(void)
{
	void *block = resized(&grown_site, NULL, 0, g_realloc(NULL, 100), 100);
	for (size_t size = 100; size < 600; size += 100)
		block = resized(&grown_site, &grown_site, size, size % 200 ? g_realloc(block, size + 100) : g_realloc_n(block, size / 100 + 1, 100), size + 100);
}

/* 300 slices of 24, 48 and 4,000 bytes, of which 200 are freed, and one that is copied. */
NOIPA void slices(void)
{
	static const size_t sizes[] = {24, 48, 4000};
	for (int i = 0; i < 300; i++) {
		size_t size = sizes[i % 3];
		void *slice = i % 2 ? took(&slice_site, g_slice_alloc(size), size) : took(&slice_site, g_slice_alloc0(size), size);
		if (i < 200) {
			gone(&slice_site, size);
			g_slice_free1(size, slice);
		}
	}
	took(&slice_site, g_slice_copy(7, "a slice"), 7);
}

/* A chain of 1,000 slices that ends at once and one of 3 that stays; one of 20 that ends. */
NOIPA void chained(int links, int kept)
{
	struct link *chain = NULL;
	for (int i = 0; i < links; i++) {
		struct link *l = took(&chain_site, g_slice_new(struct link), sizeof(struct link));
		l->next = chain;
		chain = l;
	}
	target_sink = chain;
	if (kept)
		return;
	for (int i = 0; i < links; i++)
		gone(&chain_site, sizeof(struct link));
	g_slice_free_chain(struct link, chain, next);
}

/* 30 links of a list, 25 of which go with it. */
NOIPA void lists(void)
{
	GList *list = NULL, *stays = NULL;
	for (int i = 0; i < 25; i++)
		list = took(&list_site, g_list_prepend(list, NULL), sizeof(GList));
	for (int i = 0; i < 5; i++)
		stays = took(&list_site, g_list_prepend(stays, NULL), sizeof(GList));
	for (int i = 0; i < 25; i++)
		gone(&list_site, sizeof(GList));
	g_list_free(list);
}

/* 4 strings of 6 bytes and an end. */
NOIPA void strings(void)
{
	for (int i = 0; i < 4; i++)
		took(&string_site, g_strdup("six so"), 7);
}

int main(int argc, char **argv)
{
	target_begin(argc, argv);
	plain();
	grown();
	slices();
	chained(atoi(getenv("CHAIN") ? getenv("CHAIN") : "1000"), 0);
	chained(3, 1);
	chained(20, 0);
	lists();
	strings();
	static struct site *sites[] = {&plain_site, &grown_site, &slice_site, &chain_site, &list_site, &string_site};
	target_answer("layer_glib", 1, sites, COUNT_OF(sites));
	target_end();
	return 0;
}
