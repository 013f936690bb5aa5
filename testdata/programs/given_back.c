/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frees large blocks, which its allocator gives back to the kernel where it is
 * told to, and maps memory of its own, at the same addresses where the kernel
 * does as it mostly does. Only that memory leads to the blocks that it has at its
 * end. Says how many of the mappings lie where a block was.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PLACES = 32, ROOM = 4 << 20, KEPT = 10 };

static void *volatile *mapped[PLACES];

__attribute__((noipa)) static int keep(void)
{
	uintptr_t was[PLACES];
	int again = 0;

	for (int i = 0; i < PLACES; i++)
		was[i] = (uintptr_t)memset(malloc(ROOM), 1, ROOM);
	for (int i = 0; i < PLACES; i++)
		free((void *)was[i]);
	for (int i = 0; i < PLACES; i++) {
		mapped[i] = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (mapped[i] == MAP_FAILED)
			abort();
		for (int k = 0; k < PLACES; k++)
			if ((uintptr_t)mapped[i] < was[k] + ROOM && was[k] < (uintptr_t)mapped[i] + ROOM) {
				again++;
				break;
			}
		for (int k = 0; k < KEPT; k++)
			mapped[i][1000 * k + 5] = malloc(64 + k);
	}
	return again;
}

__attribute__((noipa)) static void scrub(void)
{
	volatile char room[32 << 10];
	memset((void *)room, 0, sizeof(room));
}

int main(void)
{
	static char out[1 << 12];
	int again;

	setvbuf(stdout, out, _IOFBF, sizeof(out));
	again = keep();
	scrub();
	printf("again %d\n", again);
	return 0;
}
