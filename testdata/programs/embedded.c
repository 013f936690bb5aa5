/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loses a block of 111 bytes at a place that it says to be known, as a program
 * for LeakSanitizer does, and with an argument one of 222 at another.
 */
#include <stdlib.h>

#define NOIPA __attribute__((noipa, used))

const char *__lsan_default_suppressions(void);
NOIPA const char *__lsan_default_suppressions(void) { return "leak:known_loss\nleak:of_no_use\n"; }

static void *volatile last;

NOIPA static void known_loss(void)
{
	last = malloc(111);
	last = NULL;
}

NOIPA static void other_loss(void)
{
	last = malloc(222);
	last = NULL;
}

NOIPA static void scrub(void)
{
	volatile char room[4096];

	for (size_t i = 0; i < sizeof(room); i++)
		room[i] = 0;
}

int main(int argc, char **argv)
{
	known_loss();
	if (argc > 1 && argv[1])
		other_loss();
	scrub();
	return 0;
}
