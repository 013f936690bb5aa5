/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keeps blocks in variables of its only thread, and others in memory that it has
 * got by moving the program break itself. It loses one, as the last one.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEPT = 10 };

static _Thread_local void *volatile local[KEPT];
static void *volatile *moved;

__attribute__((noipa)) static void keep(void)
{
	for (int i = 0; i < KEPT; i++)
		local[i] = malloc(100);
	moved = sbrk(4096);
	if (moved == (void *)-1)
		abort();
	for (int i = 0; i < KEPT; i++)
		moved[i] = malloc(200);
}

__attribute__((noipa)) static void *lose(void)
{
	return memset(malloc(300), 0, 300);
}

__attribute__((noipa)) static void scrub(void)
{
	volatile char room[32 << 10];
	memset((void *)room, 0, sizeof(room));
}

int main(void)
{
	keep();
	lose();
	scrub();
	return 0;
}
