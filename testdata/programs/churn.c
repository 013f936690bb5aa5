/*
 * The benchmark's loop: malloc and free of 64 bytes, as fast as it goes, with
 * DEPTH frames of this program below the call, in THREADS threads, for SECONDS.
 *
 *   churn run|attach DEPTH THREADS SECONDS [PAIRS [HELD]]
 *
 * With PAIRS each thread ends after so many pairs, if SECONDS (0: no limit)
 * have not gone by before. With HELD it holds so many blocks of 16 to 271 bytes,
 * and each turn puts a new one in the place of any of them; at its end it frees them. The answer adds "elapsed_ns" and "threads".
 */
#include "target.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#define MAX_THREADS 64

static struct site by_thread[MAX_THREADS];
static long depth, thread_count, seconds, pair_limit, held;
static volatile int stop;
static long running;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;

NOIPA void churn_loop(struct site *s)
{
	uint64_t pairs = 0, limit = pair_limit > 0 ? (uint64_t)pair_limit : UINT64_MAX;
	while (!stop && pairs < limit) {
		void *block = malloc(64);
		target_sink = block;
		free(block);
		pairs++;
	}
	s->alloc = s->free = s->temporary = pairs;
	s->alloc_bytes = pairs * 64;
}

/* held_loop holds blocks in memory that is not malloc's. */
NOIPA void held_loop(struct site *s)
{
	uint64_t random = 0x9e3779b97f4a7c15, limit = pair_limit > 0 ? (uint64_t)pair_limit : UINT64_MAX;
	void **blocks = mmap(NULL, held * sizeof *blocks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (blocks == MAP_FAILED)
		abort();
	while (!stop && s->alloc < limit) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		void **block = &blocks[random % held];
		size_t size = 16 + (random >> 56);
		if (*block) {
			free(*block);
			s->free++;
		}
		*block = malloc(size);
		s->alloc++;
		s->alloc_bytes += size;
	}
	for (long i = 0; i < held; i++) {
		if (!blocks[i])
			continue;
		free(blocks[i]);
		s->free++;
	}
	munmap(blocks, held * sizeof *blocks);
}

/* descend puts frames of its own on the stack; the asm keeps each a real call. */
NOIPA void descend(long frames, struct site *s)
{
	if (frames > 0)
		descend(frames - 1, s);
	else if (held > 0)
		held_loop(s);
	else
		churn_loop(s);
	__asm__ volatile("" ::: "memory");
}

static void *thread_main(void *argument)
{
	struct site *s = &by_thread[(intptr_t)argument];
	/* churn_loop, descend(0) and this function are three of the frames. */
	descend(depth > 3 ? depth - 3 : 0, s);
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
	held = target_argument(argc, argv, 4, 0);
	if (thread_count < 1 || thread_count > MAX_THREADS || depth < 0 || depth > 1000 || held < 0)
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
