/*
 * Allocates as fast as it goes in one thread, and grows slowly in another, by the functions grow_much and grow_some: for a
 * tracer that can't bear the first, and must tell of the second.
 *
 *   grow_busily run|attach
 *
 * "attach" is as in target.h up to "ready PID". Then each line on stdin is a step: the first one starts the thread, all further
 * ones grow by the same amount, and "stop" ends the thread. After each step it prints how many bytes each function has
 * touched so far. The end of stdin ends it.
 *
 * A page is touched each time that the thread has taken another 2 ms of processor time, so that what the tracer takes for it
 * is a small share of that on any machine.
 */
#include "target.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#define SLICE (2 * 1000000LL)
#define ROUND (384 * 4096UL) /* whole pages of any size up to 64 KiB */
#define MOST (64 * ROUND)

static volatile int stop;
static pthread_t busy;
static size_t page, much, some;

NOIPA void churn_loop(void)
{
	while (!stop) {
		void *block = malloc(64);
		target_sink = block;
		free(block);
	}
}

static void *busy_main(void *unused)
{
	(void)unused;
	churn_loop();
	return NULL;
}

/* What the thread has taken, in ns. */
static long long taken(void)
{
	clockid_t clock;
	struct timespec t;
	if (pthread_getcpuclockid(busy, &clock) || clock_gettime(clock, &t))
		abort();
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void wait_for_slice(void)
{
	struct timespec nap = {0, 500000};
	for (long long until = taken() + SLICE; taken() < until;)
		nanosleep(&nap, NULL);
}

NOIPA void grow_much(char *at)
{
	*(volatile char *)at = 1;
}

NOIPA void grow_some(char *at)
{
	*(volatile char *)at = 1;
}

static void grow(char *memory)
{
	for (size_t at = 0; at < ROUND && much + some < MOST; at += page, wait_for_slice()) {
		if (at % (3 * page)) {
			grow_much(memory + much + some);
			much += page;
		} else {
			grow_some(memory + much + some);
			some += page;
		}
	}
}

static void answer(void)
{
	say("{\"program\":\"grow_busily\",\"pid\":%d,\"final\":true,\"touched\":{\"grow_much\":%zu,\"grow_some\":%zu}}\n", (int)getpid(), much, some);
	flush_said();
}

int main(int argc, char **argv)
{
	char line[16], *memory = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t n = 0;
	page = sysconf(_SC_PAGESIZE);
	if (memory == MAP_FAILED)
		return 1;
	madvise(memory, MOST, MADV_NOHUGEPAGE);
	target_begin(argc, argv);
	if (pthread_create(&busy, NULL, busy_main, NULL))
		return 1;
	if (!target_attach)
		grow(memory);
	answer();
	while (target_attach && read(STDIN_FILENO, line + n, 1) == 1) {
		if (line[n] != '\n') {
			n = n < sizeof(line) - 2 ? n + 1 : 0;
			continue;
		}
		if (n == 4 && !memcmp(line, "stop", 4))
			stop = 1;
		else
			grow(memory);
		n = 0;
		answer();
	}
	stop = 1;
	pthread_join(busy, NULL);
	return 0;
}
