/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Three blocks in a mapping: the second one begins where the first one ends, as
 * large blocks of allocators without headers do, and alone has a pointer to the
 * third, far from its start. Says where they are, and waits for the end of stdin.
 */
#include <stdio.h>
#include <sys/mman.h>

enum { WINDOW = 1 << 18 };

static char *first, *second;

static __attribute__((noipa)) void hold(char *third)
{
	*(char **)(second + 3 * WINDOW) = third;
	printf("block %p %d\nblock %p %d\nblock %p %d\nready\n", (void *)first, WINDOW, (void *)second, 4 * WINDOW, (void *)third, 64);
	fflush(stdout);
}

static __attribute__((noipa)) void scrub(void)
{
	volatile char room[8192];

	for (unsigned i = 0; i < sizeof(room); i++)
		room[i] = 0;
}

int main(void)
{
	char *map = mmap(NULL, 16 * WINDOW, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		return 2;
	map = (char *)(((unsigned long)map + WINDOW - 1) & -(unsigned long)WINDOW);
	first = map + WINDOW / 2;
	second = first + WINDOW;
	hold(second + 6 * WINDOW);
	scrub();
	getchar();
	return 0;
}
