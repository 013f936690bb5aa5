/*
 * Pools of the Apache Portable Runtime: pools within pools, cleared and
 * destroyed, with cleanups that allocate and free.
 */
#include "target.h"

#include <apr_general.h>
#include <apr_pools.h>
#include <apr_strings.h>
#undef apr_pcalloc /* a macro over apr_palloc */
void *apr_pcalloc(apr_pool_t *p, apr_size_t size);

static struct site request_site = {"requests"};
static struct site config_site = {"configuration"};
static struct site string_site = {"strings"};
static struct site nested_site = {"nested"};
static struct site late_site = {"cleanup"};

static apr_pool_t *server;

/* 8 blocks of 100 and of 200 bytes in a pool that stays. */
NOIPA void configuration(void)
{
	for (int i = 0; i < 8; i++) {
		took(&config_site, apr_palloc(server, 100), 100);
		took(&config_site, apr_pcalloc(server, 200), 200);
	}
}

/* 50 requests, each in a pool of its own with 10 blocks of 300 bytes, the last one of which stays. */
NOIPA void requests(void)
{
	for (int i = 0; i < 50; i++) {
		apr_pool_t *request;
		if (apr_pool_create(&request, server))
			abort();
		apr_pool_tag(request, "request");
		for (int k = 0; k < 10; k++)
			took(&request_site, apr_palloc(request, 300), 300);
		if (i == 49)
			break;
		for (int k = 0; k < 10; k++)
			gone(&request_site, 300);
		apr_pool_destroy(request);
	}
}

/* 6 strings of 12 bytes and an end. */
NOIPA void strings(void)
{
	for (int i = 0; i < 6; i++)
		took(&string_site, apr_pstrdup(server, "twelve bytes"), 13);
}

/* Cleanups allocate what stays, and free what malloc gave. */
NOIPA apr_status_t cleanup(void *block)
{
	gone(&nested_site, 64);
	free(block);
	took(&late_site, malloc(32), 32);
	took(&late_site, apr_palloc(server, 16), 16);
	return APR_SUCCESS;
}

/*
 * A pool with 2 blocks, in it one with 3, in that one with 4 and a cleanup. The
 * outer one is cleared and gets 5 more, of 1 KiB each; none of 9,000 bytes stays.
 * APR has a block of its own in the inner pool, for the cleanup.
 */
NOIPA void nested(void)
{
	apr_pool_t *outer, *middle, *inner;
	if (apr_pool_create(&outer, NULL) || apr_pool_create(&middle, outer) || apr_pool_create(&inner, middle))
		abort();
	for (int i = 0; i < 9; i++)
		took(&nested_site, apr_palloc(i < 2 ? outer : i < 5 ? middle : inner, 9000), 9000);
	void *block = took(&nested_site, malloc(64), 64);
	apr_pool_cleanup_register(inner, block, cleanup, apr_pool_cleanup_null);
	for (int i = 0; i < 9; i++)
		gone(&nested_site, 9000);
	apr_pool_clear(outer);
	for (int i = 0; i < 5; i++)
		took(&nested_site, apr_palloc(outer, 1024), 1024);
	apr_pool_tag(outer, "outer");
}

int main(int argc, char **argv)
{
	target_begin(argc, argv);
	if (apr_initialize() || apr_pool_create(&server, NULL))
		abort();
	configuration();
	requests();
	strings();
	nested();
	static struct site *sites[] = {&request_site, &config_site, &string_site, &nested_site, &late_site};
	target_answer("layer_apr", 1, sites, COUNT_OF(sites));
	target_end();
	return 0;
}
