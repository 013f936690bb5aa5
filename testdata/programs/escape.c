/*
 * Leaves libescape's allocator by longjmp and by thread exit at known calls,
 * between calls that return. Calls that were left are no allocation; the
 * answer gives their number as "escaped".
 */
#include "target.h"

#include "escape.h"
#include <pthread.h>

#define ROUNDS  1000
#define THREADS 10

static struct site returning_site = {"returning"};
static struct site zeroed_site = {"returning_zeroed"};
static struct site resized_site = {"returning_resized"};
static struct site thread_site = {"in_thread"};
static void *kept[ROUNDS * 3 + THREADS];
static unsigned kept_count;
static volatile unsigned long escaped;

NOIPA void returning(void)
{
	kept[kept_count++] = took(&returning_site, malloc(24), 24);
	void *block = took(&returning_site, malloc(72), 72);
	gone(&returning_site, 72);
	free(block);
}

NOIPA void returning_zeroed(void)
{
	kept[kept_count++] = took(&zeroed_site, calloc(4, 10), 40);
}

NOIPA void returning_resized(void)
{
	void *block = resized(&resized_site, NULL, 0, realloc(NULL, 30), 30);
	kept[kept_count++] = resized(&resized_site, &resized_site, 30, realloc(block, 60), 60);
}

/* One call deep. */
NOIPA void left_by_longjmp(void)
{
	jmp_buf here;
	if (setjmp(here) == 0) {
		escape_jump(&here);
		target_sink = malloc(1000);
		_exit(1);
	}
	escaped++;
}

/* Two calls deep: calloc, then malloc. */
NOIPA void left_by_nested_longjmp(void)
{
	jmp_buf here;
	if (setjmp(here) == 0) {
		escape_jump(&here);
		target_sink = calloc(10, 100);
		_exit(1);
	}
	escaped++;
}

/* A realloc that is left leaves its block live. */
NOIPA void left_realloc(void *block)
{
	jmp_buf here;
	if (setjmp(here) == 0) {
		escape_jump(&here);
		target_sink = realloc(block, 2000);
		_exit(1);
	}
	escaped++;
}

NOIPA void in_thread(void)
{
	kept[kept_count++] = took(&thread_site, malloc(500), 500);
}

static void *exits_inside(void *unused)
{
	(void)unused;
	in_thread();
	escape_exit();
	target_sink = calloc(3, 1000);
	_exit(1);
}

int main(int argc, char **argv)
{
	static struct site *sites[] = {&returning_site, &zeroed_site, &resized_site, &thread_site};
	target_begin(argc, argv);
	for (int i = 0; i < ROUNDS; i++) {
		returning();
		left_by_longjmp();
		returning_zeroed();
		left_by_nested_longjmp();
		returning_resized();
		left_realloc(kept[kept_count - 1]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, exits_inside, NULL))
			return 1;
		pthread_join(thread, NULL);
		escaped++;
	}
	target_answer("escape", 1, sites, COUNT_OF(sites));
	say(",\"escaped\":%lu", escaped);
	target_end();
	return 0;
}
