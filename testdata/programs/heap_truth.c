/*
 * A heap in every state that glibc's allocator knows, and what is in it: free
 * chunks in all kinds of bins, threads' caches, arenas of threads, blocks with
 * a mapping of their own, aligned blocks, and memory that another user of
 * sbrk took. It prints, without using the heap:
 *
 *   block ADDRESS USABLE-SIZE kept|lost     each block that it has allocated
 *   freed ADDRESS                           each that it has freed, and not allocated again
 *   inuse BYTES mappings COUNT BYTES        what mallinfo says
 *   ready
 *
 * and waits for the end of stdin. Addresses are kept inverted. The other
 * threads wait as well. A first argument of "sbrk" has memory in the middle of
 * the heap that is not malloc's.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TABLE = 1 << 16, THREADS = 3 };

static uintptr_t key[TABLE]; /* ~address; 0: free */
static char state[TABLE];    /* k: kept, l: lost, f: freed */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void note(void *block, char what)
{
	uintptr_t k = ~(uintptr_t)block;
	pthread_mutex_lock(&lock);
	size_t i = (k >> 4) % TABLE;
	while (key[i] && key[i] != k)
		i = (i + 1) % TABLE;
	key[i] = k;
	state[i] = what;
	pthread_mutex_unlock(&lock);
}

/* What is kept hangs from here. */
static void *volatile kept[THREADS + 1][4096];
static int kept_count[THREADS + 1];

static unsigned next_random(unsigned *seed) { return *seed = *seed * 1103515245u + 12345u; }

static void *keep(int thread, void *block, size_t n)
{
	memset(block, 0x11, n < 64 ? n : 64);
	note(block, 'k');
	kept[thread][kept_count[thread]++] = block;
	return block;
}

static void lose(void *block, size_t n)
{
	memset(block, 0, n < 64 ? n : 64);
	note(block, 'l');
}

static void drop(void *block)
{
	note(block, 'f');
	free(block);
}

/* aligned returns a block at a multiple of a power of two. */
static void *aligned(size_t alignment, size_t n)
{
	void *p = NULL;
	if (posix_memalign(&p, alignment, n))
		abort();
	return p;
}

/* fill makes chunks of all sizes, and frees many of them in three patterns. */
static __attribute__((noinline)) void fill(int thread)
{
	unsigned seed = 7u + (unsigned)thread;
	void *some[600];
	for (int i = 0; i < 600; i++) {
		size_t n = (next_random(&seed) >> 8) % 16 < 12 ? (next_random(&seed) >> 8) % 300 : (next_random(&seed) >> 8) % 9000;
		some[i] = malloc(n);
		note(some[i], 'k');
		memset(some[i], 0x22, n < 32 ? n : 32);
	}
	for (int i = 0; i < 600; i++) {
		if (i % 3 == 0)
			drop(some[i]);
		else if (i % 50 == 1)
			lose(some[i], 24);
		else
			keep(thread, some[i], 24);
	}
	for (size_t n = 24; n < 200; n += 16) { /* more of a size than a thread caches: fastbins, too */
		void *same[20];
		for (int i = 0; i < 20; i++)
			same[i] = malloc(n);
		for (int i = 0; i < 20; i++)
			i % 2 ? drop(same[i]) : (void)keep(thread, same[i], n);
	}
	for (size_t alignment = 32; alignment <= 8192; alignment *= 4)
		keep(thread, aligned(alignment, 500), 500);
	for (size_t n = 2000; n < 100000; n *= 3) { /* large bins, with neighbours that stay */
		void *a = malloc(n), *b = malloc(40), *c = malloc(n), *d = malloc(40);
		drop(a);
		keep(thread, b, 40);
		keep(thread, c, n);
		keep(thread, d, 40);
	}
	drop(malloc(3000));
	keep(thread, calloc(1, 3500), 3500); /* sorts the unsorted bin */
	drop(malloc(70000));
}

static __attribute__((noinline)) void map_large(int thread)
{
	keep(thread, malloc(200000), 200000);
	lose(malloc(300000), 300000);
	keep(thread, malloc(5 << 20), 64); /* hardly touched */
	for (size_t alignment = 64; alignment <= 65536; alignment *= 4)
		keep(thread, aligned(alignment, 400000), 64);
	drop(malloc(250000));
}

/* scrub overwrites what calls left on the stack. */
static __attribute__((noinline)) void scrub(void)
{
	volatile char room[16384];
	memset((void *)room, 0, sizeof(room));
	for (size_t i = 0; i < sizeof(room); i++)
		(void)room[i];
}

static pthread_barrier_t done;

static void *in_thread(void *argument)
{
	fill((int)(intptr_t)argument);
	scrub();
	pthread_barrier_wait(&done);
	for (;;)
		pause();
	return NULL;
}

static char said[1 << 22];
static size_t said_length;

static void say_all(void)
{
	for (size_t i = 0; i < TABLE; i++) {
		if (!key[i])
			continue;
		void *block = (void *)~key[i];
		if (state[i] == 'f')
			said_length += (size_t)snprintf(said + said_length, sizeof(said) - said_length, "freed %p\n", block);
		else
			said_length += (size_t)snprintf(said + said_length, sizeof(said) - said_length, "block %p %zu %s\n", block,
							 malloc_usable_size(block), state[i] == 'l' ? "lost" : "kept");
	}
#ifdef OLD_MALLINFO
	struct mallinfo m = mallinfo();
#else
	struct mallinfo2 m = mallinfo2();
#endif
	said_length += (size_t)snprintf(said + said_length, sizeof(said) - said_length, "inuse %zu mappings %zu %zu\nready\n",
					 (size_t)m.uordblks, (size_t)m.hblks, (size_t)m.hblkhd);
	for (size_t at = 0; at < said_length;) {
		ssize_t n = write(STDOUT_FILENO, said + at, said_length - at);
		if (n <= 0)
			_exit(3);
		at += (size_t)n;
	}
}

int main(int argc, char **argv)
{
	fill(0);
	if (argc > 1 && !strcmp(argv[1], "sbrk")) {
		memset(sbrk(10000), 0x33, 10000);
		for (int i = 0; i < 2000; i++)
			keep(0, malloc(1000), 1000);
	}
	map_large(0);
	pthread_barrier_init(&done, NULL, THREADS + 1);
	for (intptr_t i = 1; i <= THREADS; i++) {
		pthread_t t;
		if (pthread_create(&t, NULL, in_thread, (void *)i))
			abort();
	}
	pthread_barrier_wait(&done);
	scrub();
	say_all();
	for (char c; read(STDIN_FILENO, &c, 1) > 0;)
		;
	return 0;
}
