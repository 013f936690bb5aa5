/*
 * A producer allocates blocks of 16 to 1,023 bytes, a consumer in another
 * thread frees nine of ten and keeps the tenth. Argument: blocks (50,000).
 */
#include "target.h"

#include <pthread.h>

#define SLOTS      256
#define MAX_BLOCKS 10000000

struct item {
	void *block;
	size_t size;
};

static struct site produced = {"produce"};
static struct item slots[SLOTS];
static void *kept[MAX_BLOCKS / 10 + 1];
static long block_count, put, taken;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

NOIPA void *produce(size_t size)
{
	void *block = malloc(size);
	target_sink = block;
	return block;
}

NOIPA void consume(struct item item)
{
	free(item.block);
}

static void *producer(void *unused)
{
	(void)unused;
	for (long i = 0; i < block_count; i++) {
		struct item item = {NULL, 16 + (size_t)(i * 7 % 1008)};
		item.block = produce(item.size);
		pthread_mutex_lock(&lock);
		while (put - taken == SLOTS)
			pthread_cond_wait(&changed, &lock);
		took(&produced, item.block, item.size);
		slots[put++ % SLOTS] = item;
		pthread_cond_signal(&changed);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void *consumer(void *unused)
{
	(void)unused;
	for (long i = 0; i < block_count; i++) {
		pthread_mutex_lock(&lock);
		while (put == taken)
			pthread_cond_wait(&changed, &lock);
		struct item item = slots[taken++ % SLOTS];
		if (i % 10 && item.block)
			gone(&produced, item.size);
		pthread_cond_signal(&changed);
		pthread_mutex_unlock(&lock);
		if (i % 10)
			consume(item);
		else
			kept[i / 10] = item.block;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct site *sites[] = {&produced};
	pthread_t threads[2];
	block_count = target_argument(argc, argv, 0, 50000);
	if (block_count < 0 || block_count > MAX_BLOCKS)
		return 2;
	target_begin(argc, argv);
	if (pthread_create(&threads[0], NULL, producer, NULL) || pthread_create(&threads[1], NULL, consumer, NULL))
		return 1;
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	target_answer("cross_thread_free", 1, sites, COUNT_OF(sites));
	target_end();
	return 0;
}
