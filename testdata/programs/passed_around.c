/*
 * Blocks that threads free for one another, 32 at a go, with a pause of PAUSE µs in between: each of SLOTS
 * places always holds one block, of a size of its own, and THREADS threads put
 * new ones in the place of any of them. So the program has SLOTS blocks at any
 * instant, and at most one more for each thread. Blocks look like the nodes of a
 * list: a pointer to another block, then a small number.
 *
 *   passed_around run|attach [SLOTS [THREADS [KEPT [PAUSE]]]]
 *
 * It answers once all places are filled and the threads run, and again once
 * they have ended; the answer adds "most_bytes", the size of the largest block.
 * With KEPT it has so many blocks more, of 24 bytes, among the others, and all
 * others point to these; it never frees them, and "kept" has their addresses.
 */
#include "target.h"

#include <pthread.h>
#include <sys/mman.h>

#define MAX_THREADS 16
#define MAX_KEPT 1000

struct node {
	struct node *next;
	uint64_t number;
};

static struct site of_passed = {.function = "pass_around"}, of_kept = {.function = "keep"};
static struct node **slots;
static long slot_count, thread_count, kept_count, pause_us;
static struct node *kept[MAX_KEPT];
static volatile int stop;
static pthread_barrier_t filled;

static uint64_t size_of(uint64_t slot)
{
	static const uint16_t sizes[] = {24, 24, 40, 56, 104, 200, 424, 1000, 1500, 5000};
	return sizes[slot % COUNT_OF(sizes)];
}

NOIPA void keep(long i)
{
	struct node *node = malloc(24);
	node->next = NULL;
	node->number = 1;
	__atomic_store_n(&kept[i], node, __ATOMIC_RELEASE);
}

NOIPA void pass_around(uint64_t slot, uint64_t other)
{
	struct node *fresh = malloc(size_of(slot));
	if (kept_count)
		fresh->next = __atomic_load_n(&kept[other % (uint64_t)kept_count], __ATOMIC_ACQUIRE);
	else
		fresh->next = __atomic_load_n(&slots[other], __ATOMIC_RELAXED);
	fresh->number = slot % 64;
	free(__atomic_exchange_n(&slots[slot], fresh, __ATOMIC_ACQ_REL));
}

static void *work(void *arg)
{
	uint64_t random = 0x9e3779b97f4a7c15 * ((uintptr_t)arg + 1);
	for (long i = (long)(uintptr_t)arg; i < slot_count; i += thread_count) {
		pass_around((uint64_t)i, 0);
		if (i < kept_count)
			keep(i);
	}
	pthread_barrier_wait(&filled);
	for (uint64_t turn = 0; !stop; turn++) {
		if (pause_us && turn % 32 == 0) /* or a tracer that gets no processor loses events */
			usleep((useconds_t)pause_us);
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		pass_around(random % (uint64_t)slot_count, (random >> 20) % (uint64_t)slot_count);
	}
	return NULL;
}

static void answer(void)
{
	struct site *all[] = {&of_passed, &of_kept};
	of_kept.live_count = (uint64_t)kept_count;
	of_kept.live_bytes = 24 * of_kept.live_count;
	of_passed.live_count = (uint64_t)slot_count;
	of_passed.live_bytes = 0;
	for (long i = 0; i < slot_count; i++)
		of_passed.live_bytes += size_of((uint64_t)i);
	target_answer("passed_around", 1, all, COUNT_OF(all));
	say(",\"most_bytes\":5000");
	for (long i = 0; i < kept_count; i++)
		say("%s%llu", i ? "," : ",\"kept\":[", (unsigned long long)(uintptr_t)kept[i]);
	if (kept_count)
		say("]");
	target_end();
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS];
	target_begin(argc, argv);
	slot_count = target_argument(argc, argv, 0, 4000);
	thread_count = target_argument(argc, argv, 1, 4);
	kept_count = target_argument(argc, argv, 2, 0);
	pause_us = target_argument(argc, argv, 3, 500);
	if (kept_count < 0 || kept_count > MAX_KEPT || slot_count < kept_count || slot_count < 1 || thread_count < 1 || thread_count > MAX_THREADS)
		return 2;
	slots = mmap(NULL, (size_t)slot_count * sizeof *slots, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (slots == MAP_FAILED)
		return 3;
	pthread_barrier_init(&filled, NULL, (unsigned)thread_count + 1);
	for (long i = 0; i < thread_count; i++)
		pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i);
	pthread_barrier_wait(&filled);
	answer();
	stop = 1;
	for (long i = 0; i < thread_count; i++)
		pthread_join(threads[i], NULL);
	answer();
	return 0;
}
