/*
 * Threads that do nothing but allocate and free, and lose nothing: at most times
 * each is stopped in, one of them is about to be given a block that no register and no
 * word of the program's has the address of. The first thread ends the program
 * after a while, once each of the others has allocated. Arguments: threads (4), milliseconds (500).
 */
#include "target.h"
#include <pthread.h>
#include <stdatomic.h>

#define MAX_THREADS 16
#define TURNS 200 /* that each thread makes at least, however long it waits for a processor */
#define HELD 7 /* as many blocks of a size as glibc keeps for a thread */

static void *held[MAX_THREADS][HELD];
static atomic_long turns[MAX_THREADS];

NOIPA void turn(void **blocks)
{
	for (int i = 0; i < HELD; i++) {
		blocks[i] = malloc(100);
#if defined(__x86_64__)
		/* malloc leaves the next block's address behind. */
		__asm__ volatile("xor %%ecx, %%ecx; xor %%edx, %%edx; xor %%esi, %%esi" ::: "rcx", "rdx", "rsi");
#endif
	}
	for (int i = 0; i < HELD; i++) {
		void *block = blocks[i];

		blocks[i] = NULL;
		free(block);
	}
}

static void *work(void *argument)
{
	long thread = (void *(*)[HELD])argument - held;

	for (;;) {
		turn(argument);
		atomic_fetch_add_explicit(&turns[thread], 1, memory_order_relaxed);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long threads = target_argument(argc, argv, 0, 4), milliseconds = target_argument(argc, argv, 1, 500);
	pthread_t thread;

	if (threads < 1 || threads > MAX_THREADS)
		return 2;
	target_begin(argc, argv);
	for (long i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, work, held[i]))
			return 1;
	usleep(milliseconds * 1000);
	for (long i = 0; i < threads; i++)
		while (atomic_load(&turns[i]) < TURNS)
			usleep(1000);
	if (target_attach) {
		say("{\"program\":\"handed_out\",\"pid\":%d,\"final\":true", (int)getpid()); /* no tally: it goes on */
		target_end();
	}
	return 0;
}
