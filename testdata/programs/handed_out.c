/*
 * Threads that do nothing but allocate and free, and lose nothing: at most times
 * each is stopped in, one of them is about to be given a block that no register and no
 * word of the program's has the address of. The first thread ends the program
 * after a while. Arguments: threads (4), milliseconds (500).
 */
#include "target.h"
#include <pthread.h>

#define MAX_THREADS 16
#define HELD 7 /* as many blocks of a size as glibc keeps for a thread */

static void *held[MAX_THREADS][HELD];

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
	for (;;)
		turn(argument);
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
	if (target_attach) {
		say("{\"program\":\"handed_out\",\"pid\":%d,\"final\":true", (int)getpid()); /* no tally: it goes on */
		target_end();
	}
	return 0;
}
