/*
 * Two threads allocate 100,000 blocks of 4 bytes each and keep them:
 * 800,000 bytes in 200,000 blocks. Arguments: threads, blocks a thread.
 */
#include "target.h"

#include <pthread.h>

#define MAX_THREADS 16
#define MAX_BLOCKS  1000000

static struct site sites_by_thread[MAX_THREADS];
static void *blocks[MAX_THREADS][MAX_BLOCKS];
static long block_count;

NOIPA void small_blocks(struct site *s, void **out)
{
	for (long i = 0; i < block_count; i++)
		out[i] = took(s, malloc(4), 4);
}

static void *thread_main(void *argument)
{
	long i = (long)(intptr_t)argument;
	small_blocks(&sites_by_thread[i], blocks[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct site total = {"small_blocks"};
	static struct site *sites[] = {&total};
	pthread_t threads[MAX_THREADS];
	long thread_count = target_argument(argc, argv, 0, 2);
	block_count = target_argument(argc, argv, 1, 100000);
	if (thread_count < 1 || thread_count > MAX_THREADS || block_count < 0 || block_count > MAX_BLOCKS)
		return 2;
	target_begin(argc, argv);
	for (long i = 0; i < thread_count; i++)
		if (pthread_create(&threads[i], NULL, thread_main, (void *)(intptr_t)i))
			return 1;
	for (long i = 0; i < thread_count; i++) {
		pthread_join(threads[i], NULL);
		total.alloc += sites_by_thread[i].alloc;
		total.failed += sites_by_thread[i].failed;
		total.alloc_bytes += sites_by_thread[i].alloc_bytes;
		total.live_bytes += sites_by_thread[i].live_bytes;
		total.live_count += sites_by_thread[i].live_count;
	}
	target_answer("two_threads", 1, sites, COUNT_OF(sites));
	target_end();
	return 0;
}
