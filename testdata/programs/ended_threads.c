/*
 * Threads that have ended, whose stacks glibc keeps for others to come. Says what their ends have lost and what is
 * held, by what else looks like such a stack:
 *
 *   lost SIZE
 *   held SIZE
 *
 * Then it waits for the end of its input.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define NOIPA __attribute__((noipa, used))

static __thread void *volatile mine;
static volatile int tid_of_detached;
static ucontext_t outside, fiber;

static const struct {
	const char *word;
	size_t size;
} said[] = {{"lost", 999}, {"lost", 1111}, {"lost", 2222}, {"lost", 3333}, {"lost", 4444}, {"held", 5555}, {"held", 6666}, {"held", 7777}};

NOIPA static void *block(size_t size) { return memset(malloc(size), 1, size); }

/* A thread's local variable goes with it, and so does a variable of its own. */
NOIPA static void *keeps_in_local(void *size)
{
	void *volatile here = block((size_t)size);
	__asm__ volatile("" : : "r"(&here) : "memory");
	return NULL;
}

NOIPA static void *keeps_in_own(void *size)
{
	mine = block((size_t)size);
	return NULL;
}

NOIPA static void *detached(void *size)
{
	keeps_in_own(size);
	tid_of_detached = (int)syscall(SYS_gettid);
	return NULL;
}

static volatile int arrived;

/* What it returns is nowhere else until somebody joins it. */
NOIPA static void *returns(void *size)
{
	keeps_in_local((void *)999);
	void *returned = block((size_t)size);
	__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
	return returned;
}

/* A live thread and a fiber, with stacks from mmap as glibc's are. */
NOIPA static void *waits(void *size)
{
	void *volatile here = block((size_t)size);
	__asm__ volatile("" : : "r"(&here) : "memory");
	__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
	return NULL;
}

NOIPA static void in_fiber(void)
{
	void *volatile here = block(7777);
	__asm__ volatile("" : : "r"(&here) : "memory");
	swapcontext(&fiber, &outside);
}

NOIPA static void *guarded(size_t size)
{
	char *room = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(room + 4096, size - 4096, PROT_READ | PROT_WRITE);
	return room;
}

NOIPA static void start_fiber(void)
{
	const size_t size = 8 << 20;
	getcontext(&fiber);
	fiber.uc_stack.ss_sp = (char *)guarded(size) + 4096;
	fiber.uc_stack.ss_size = size - 4096;
	makecontext(&fiber, in_fiber, 0);
	swapcontext(&outside, &fiber);
	memset(&outside, 0, sizeof(outside));
}

NOIPA static void join(void *(*fn)(void *), size_t size, int times)
{
	pthread_t t[2];
	for (int i = 0; i < times; i++)
		pthread_create(&t[i], NULL, fn, (void *)(size + i * 1111));
	for (int i = 0; i < times; i++)
		pthread_join(t[i], NULL);
}

static int gone(int tid)
{
	return syscall(SYS_tgkill, getpid(), tid, 0) < 0;
}

NOIPA static void detach(size_t size)
{
	pthread_t t;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_create(&t, &attr, detached, (void *)size);
	while (!tid_of_detached || !gone(tid_of_detached))
		usleep(100);
}

static int threads(void)
{
	int n = -2; /* . and .. */
	DIR *d = opendir("/proc/self/task");
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* scrub overwrites what calls left on the stack. */
NOIPA static void scrub(void)
{
	char room[8192];
	memset(room, 0, sizeof(room));
	__asm__ volatile("" : : "r"(room) : "memory");
}

int main(void)
{
	static char text[256];
	static pthread_t kept, never_joined;
	size_t at = 0;
	pthread_create(&never_joined, NULL, returns, (void *)5555);
	pthread_create(&kept, NULL, waits, (void *)6666);
	while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < 2 || threads() > 2)
		usleep(100);
	join(keeps_in_local, 1111, 2);
	join(keeps_in_own, 3333, 1);
	detach(4444);
	start_fiber();
	scrub();
	for (size_t i = 0; i < sizeof(said) / sizeof(*said); i++)
		at += sprintf(text + at, "%s %zu\n", said[i].word, said[i].size);
	if (write(1, text, at) != (ssize_t)at)
		return 1;
	while (read(0, text, sizeof(text)) > 0)
		;
	return 0;
}
