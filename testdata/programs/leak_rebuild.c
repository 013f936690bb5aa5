/*
 * Three threads, each of which makes one thing that an observer of the heap
 * may take for a leak, as fast as it can, for good:
 *
 *   0  a table of the only pointers to its blocks, which is copied to a new
 *      place and then freed, so that the pointers are never twice where they were
 *   1  a block that is allocated, always with the same content, kept where no
 *      observer finds it (inverted) for a moment, and freed
 *   2  records that hang from records that are replaced all the time
 *
 * Before that it loses LOST blocks of 777 bytes. See target.h for the modes.
 */
#include "target.h"

#include <pthread.h>
#include <stdint.h>

enum { LOST = 25, TABLE = 2000 };

static unsigned next_random(unsigned *seed) { return *seed = *seed * 1103515245u + 12345u; }

static void *volatile slot[4];

static void *rebuild_table(void *unused)
{
	(void)unused;
	unsigned seed = 1;
	size_t size = TABLE + 8;
	void **table = calloc(size, sizeof(void *));
	for (size_t i = 0; i < TABLE; i++)
		table[i] = calloc(1, 40 + i % 200);
	slot[0] = table;
	static void *volatile between[64]; /* so that each copy is elsewhere */
	for (;;) {
		unsigned k = (next_random(&seed) >> 8) % 64;
		free(between[k]);
		between[k] = malloc((next_random(&seed) >> 8) % 60000);
		size_t next = TABLE + 8 + (next_random(&seed) >> 8) % 3000;
		void **copy = calloc(next, sizeof(void *));
		memcpy(copy, slot[0], TABLE * sizeof(void *));
		table = slot[0];
		slot[0] = copy;
		free(table);
	}
	return NULL;
}

static void *same_again(void *unused)
{
	(void)unused;
	static volatile uintptr_t hidden;
	for (;;) {
		char *b = malloc(333);
		memset(b, 7, 333);
		hidden = ~(uintptr_t)b;
		b = NULL;
		for (volatile int i = 0; i < 3000; i++)
			;
		free((void *)~hidden);
	}
	return NULL;
}

struct record {
	struct record *next;
	char *text;
	char room[100];
};

static void *replace_records(void *unused)
{
	(void)unused;
	for (unsigned long n = 0;; n++) {
		struct record *first = NULL;
		for (int i = 0; i < 30; i++) {
			struct record *r = calloc(1, sizeof(*r));
			r->text = strdup("what every record says, always the same");
			r->next = first;
			first = r;
		}
		struct record *old = slot[2];
		slot[2] = first;
		while (old) {
			struct record *r = old;
			old = r->next;
			free(r->text);
			free(r);
		}
	}
	return NULL;
}

static __attribute__((noinline)) void lose(void)
{
	for (int i = 0; i < LOST; i++)
		memset(malloc(777), 1, 777);
}

static __attribute__((noinline)) void scrub(void)
{
	volatile char room[16384];
	memset((void *)room, 0, sizeof(room));
	for (size_t i = 0; i < sizeof(room); i++)
		(void)room[i];
}

int main(int argc, char **argv)
{
	lose();
	scrub();
	void *(*work[])(void *) = {rebuild_table, same_again, replace_records};
	for (size_t i = 0; i < COUNT_OF(work); i++) {
		pthread_t t;
		if (pthread_create(&t, NULL, work[i], NULL))
			return 3;
	}
	target_begin(argc, argv);
	for (;;)
		pause();
}
