/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Holds a list of 120,000 blocks, each of which points to the one that was allocated next, and says where they are; all
 * are reachable. Waits for the end of stdin.
 */
#include <stdio.h>
#include <stdlib.h>

struct node {
	struct node *next;
	unsigned long data;
};

static struct node *first, *last;

int main(void)
{
	for (int i = 0; i < 120000; i++) {
		struct node *n = malloc(sizeof(*n));

		n->next = NULL;
		n->data = i;
		if (first)
			last->next = n;
		else
			first = n;
		last = n;
	}
	last = NULL;
	for (struct node *n = first; n; n = n->next)
		printf("block %p %zu\n", (void *)n, sizeof(*n));
	puts("ready");
	fflush(stdout);
	getchar();
	return 0;
}
