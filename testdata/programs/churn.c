/*
 * The benchmark's loop: malloc and free of 64 bytes, as fast as it goes, with
 * DEPTH frames of this program below the call, in THREADS threads, for SECONDS.
 *
 *   churn run|attach DEPTH THREADS SECONDS [PAIRS]
 *
 * With PAIRS each thread ends after so many pairs, if SECONDS (0: no limit)
 * have not gone by before. The answer adds "elapsed_ns" and "threads".
 */
#include "target.h"

#include <pthread.h>
#include <time.h>

#define MAX_THREADS 64

static struct site by_thread[MAX_THREADS];
static long depth, thread_count, seconds, pair_limit;
static volatile int stop;
static long running;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;

NOIPA uint64_t churn_loop(void)
{
	uint64_t pairs = 0, limit = pair_limit > 0 ? (uint64_t)pair_limit : UINT64_MAX;
	while (!stop && pairs < limit) {
		void *block = malloc(64);
		target_sink = block;
		free(block);
		pairs++;
	}
	return pairs;
}

/* descend puts frames of its own on the stack; the asm keeps each a real call. */
NOIPA uint64_t descend(long frames)
{
	uint64_t pairs = frames > 0 ? descend(frames - 1) : churn_loop();
	__asm__ volatile("" ::: "memory");
	return pairs;
}

static void *thread_main(void *argument)
{
	struct site *s = &by_thread[(intptr_t)argument];
	/* churn_loop, descend(0) and this function are three of the frames. */
	uint64_t pairs = descend(depth > 3 ? depth - 3 : 0);
	s->alloc = s->free = s->temporary = pairs;
	s->alloc_bytes = pairs * 64;
	pthread_mutex_lock(&lock);
	running--;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void wait_for_threads(const struct timespec *began)
{
	struct timespec until = {began->tv_sec + seconds, began->tv_nsec};
	pthread_mutex_lock(&lock);
	while (running > 0) {
		if (seconds <= 0 || stop)
			pthread_cond_wait(&changed, &lock);
		else if (pthread_cond_timedwait(&changed, &lock, &until) == ETIMEDOUT)
			stop = 1;
	}
	pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv)
{
	static struct site total = {"churn_loop"};
	static struct site *sites[] = {&total};
	pthread_t threads[MAX_THREADS];
	struct timespec began, ended;
	depth = target_argument(argc, argv, 0, 20);
	thread_count = target_argument(argc, argv, 1, 1);
	seconds = target_argument(argc, argv, 2, 1);
	pair_limit = target_argument(argc, argv, 3, 0);
	if (thread_count < 1 || thread_count > MAX_THREADS || depth < 0 || depth > 1000)
		return 2;
	target_begin(argc, argv);
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &attributes);
	running = thread_count;
	clock_gettime(CLOCK_MONOTONIC, &began);
	for (long i = 0; i < thread_count; i++)
		if (pthread_create(&threads[i], NULL, thread_main, (void *)(intptr_t)i))
			return 1;
	wait_for_threads(&began);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	for (long i = 0; i < thread_count; i++) {
		pthread_join(threads[i], NULL);
		total.alloc += by_thread[i].alloc;
		total.free += by_thread[i].free;
		total.temporary += by_thread[i].temporary;
		total.alloc_bytes += by_thread[i].alloc_bytes;
	}
	target_answer("churn", 1, sites, COUNT_OF(sites));
	say(",\"threads\":%ld,\"elapsed_ns\":%lld", thread_count,
	    (ended.tv_sec - began.tv_sec) * 1000000000LL + ended.tv_nsec - began.tv_nsec);
	target_end();
	return 0;
}
