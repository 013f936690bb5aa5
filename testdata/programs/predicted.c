/*
 * Blocks of all the sizes that glibc's threads keep lists of, and larger ones,
 * allocated and freed at random by several threads, also each other's.
 * Arguments: threads (3), rounds of each (20,000), and "hook" to have the C library's
 * malloc and memalign hooks (before 2.34) take over after half of the rounds, or "aligned" to have most blocks from aligned_alloc,
 * aligned as all blocks are. Prints of each thread
 *
 *   thread TID CALLS HASH
 *
 * where the hash is of its calls in their order: h = (h ^ value) * 0x9e3779b97f4a7c15
 * for each value of
 *
 *   allocation     address, size
 *   reallocation   new address, size, old address
 *   free           address
 *
 * Half as many rounds follow after the thread's function has returned, when another allocator than
 * the C library's has taken the thread's cache back and may give it to another one. Then the threads wait until the end.
 *
 * Allocators may call themselves when a thread begins or goes on after its end. So what counts is between two
 * blocks of MARK bytes, which are kept, and after a third one.
 */
#include "target.h"
#include <pthread.h>

#define MAX_THREADS 16
#define HELD 256
#define SHARED 64
#define MARK 77777 /* equal in the test */

struct worker {
	pthread_t thread;
	pid_t tid;
	uint64_t hash, calls;
	uint64_t random;
	void *held[HELD], *marks[3];
} __attribute__((aligned(128)));

static struct worker workers[MAX_THREADS];
static void *shared[SHARED];
static long thread_count, rounds;
static int hooked, most_aligned;
static pthread_barrier_t ran, done;
static pthread_key_t key; /* younger than an allocator's own, whose destructor runs before */

static void note(struct worker *w, uint64_t value)
{
	w->hash = (w->hash ^ value) * 0x9e3779b97f4a7c15ULL;
}

static uint64_t next_random(struct worker *w, uint64_t below)
{
	w->random = w->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (w->random >> 33) % below;
}

/* Mostly what fits into a list (up to 1,032 bytes), at its edges too. */
static size_t random_size(struct worker *w)
{
	switch (next_random(w, 16)) {
	case 0: return next_random(w, 3);
	case 1: return 1024 + next_random(w, 18);
	case 2: return next_random(w, 20000);
	case 3: return next_random(w, 400) ? next_random(w, 4096) : 200000;
	default: return next_random(w, 1 << next_random(w, 11));
	}
}

NOIPA void *plain(size_t size)
{
	void *block = malloc(size);

	target_sink = block;
	return block;
}

/* C++'s operator new, where an allocator of its own brings it. */
extern void *_Znwm(size_t) __attribute__((weak));
NOIPA void *created(size_t size)
{
	void *block = _Znwm(size);

	target_sink = block;
	return block;
}

NOIPA void *zeroed(size_t size)
{
	void *block = calloc(1, size);

	target_sink = block;
	return block;
}

NOIPA void *aligned(size_t alignment, size_t size)
{
	void *block = aligned_alloc(alignment, size);

	target_sink = block;
	return block;
}

NOIPA void *regrown(void *old, size_t size)
{
	void *block = realloc(old, size);

	target_sink = block;
	return block;
}

static void allocate(struct worker *w, void **slot)
{
	size_t size = random_size(w);

	if (&_Znwm && next_random(w, 2))
		*slot = created(size);
	else if (most_aligned || next_random(w, hooked ? 16 : 64) == 0)
		*slot = aligned(1 << next_random(w, most_aligned ? 5 : 8), size); /* up to 16 and up to 128 */
	else
		*slot = next_random(w, 16) ? plain(size) : zeroed(size);
	note(w, (uintptr_t)*slot);
	note(w, size);
}

static void reallocate(struct worker *w, void **slot)
{
	size_t size = random_size(w) + 1;
	void *old = *slot;

	*slot = regrown(old, size);
	note(w, (uintptr_t)*slot);
	note(w, size);
	note(w, (uintptr_t)old);
}

static void release(struct worker *w, void *block)
{
	note(w, (uintptr_t)block);
	free(block);
}

/* Another thread's block for the one in slot. */
static void exchange(struct worker *w, void **slot)
{
	*slot = __atomic_exchange_n(&shared[next_random(w, SHARED)], *slot, __ATOMIC_ACQ_REL);
}

static void turn(struct worker *w)
{
	void **slot = &w->held[next_random(w, HELD)];

	if (next_random(w, 4) == 0)
		exchange(w, slot);
	if (!*slot)
		allocate(w, slot);
	else if (next_random(w, 16) == 0)
		reallocate(w, slot);
	else {
		release(w, *slot);
		*slot = NULL;
	}
	w->calls++;
}

/* As programs hooked malloc: the hook is taken off for the call within. It returns the second of two blocks. */
extern void *(*volatile __malloc_hook)(size_t, const void *) __attribute__((weak));
static void *(*before)(size_t, const void *);
static void *hook(size_t size, const void *caller)
{
	void *first, *second;

	(void)caller;
	__malloc_hook = before;
	first = malloc(size);
	second = malloc(size);
	free(first);
	__malloc_hook = hook;
	return second;
}

extern void *(*volatile __memalign_hook)(size_t, size_t, const void *) __attribute__((weak));
static void *(*before_aligned)(size_t, size_t, const void *);
static void *hook_aligned(size_t alignment, size_t size, const void *caller)
{
	void *first, *second;

	(void)caller;
	__memalign_hook = before_aligned;
	first = aligned_alloc(alignment, size);
	second = aligned_alloc(alignment, size);
	free(first);
	__memalign_hook = hook_aligned;
	return second;
}

static void *work(void *argument)
{
	struct worker *w = argument;

	w->tid = gettid();
	free(plain(1));
	w->marks[0] = plain(MARK);
	for (long i = 0; i < rounds; i++) {
		if (hooked && i == rounds / 2) {
			before = __malloc_hook;
			__malloc_hook = hook;
			before_aligned = __memalign_hook;
			__memalign_hook = hook_aligned;
		}
		turn(w);
	}
	w->marks[1] = plain(MARK);
	pthread_setspecific(key, w);
	return NULL;
}

static void after_work(void *argument)
{
	struct worker *w = argument;

	free(plain(1));
	w->marks[2] = plain(MARK);
	for (long i = 0; i < rounds / 2; i++)
		turn(w);
	pthread_barrier_wait(&ran);
	pthread_barrier_wait(&done);
}

int main(int argc, char **argv)
{
	thread_count = target_argument(argc, argv, 0, 3);
	rounds = target_argument(argc, argv, 1, 20000);
	most_aligned = argc > 4 && !strcmp(argv[4], "aligned");
	hooked = argc > 4 && !most_aligned && &__malloc_hook;
	if (thread_count < 1 || thread_count > MAX_THREADS || (hooked && thread_count > 1))
		return 2;
	target_begin(argc, argv);
	pthread_barrier_init(&ran, NULL, thread_count + 1);
	pthread_barrier_init(&done, NULL, thread_count + 1);
	if (pthread_key_create(&key, after_work))
		return 1;
	for (long i = 0; i < thread_count; i++) {
		workers[i].random = i + 1;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			return 1;
	}
	pthread_barrier_wait(&ran);
	for (long i = 0; i < thread_count; i++)
		say("thread %d %llu %llu\n", (int)workers[i].tid, (unsigned long long)workers[i].calls, (unsigned long long)workers[i].hash);
	say("{\"program\":\"predicted\",\"pid\":%d,\"final\":true", (int)getpid()); /* no tally: the hashes say more */
	target_end();
	pthread_barrier_wait(&done);
	for (long i = 0; i < thread_count; i++)
		pthread_join(workers[i].thread, NULL);
	return 0;
}
