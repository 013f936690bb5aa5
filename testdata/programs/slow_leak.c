/*
 * A service that leaks: 16 times a second it handles a request, which allocates and frees a row, and forgets a copy of
 * 1 KiB of it. 16 KiB/s.
 *
 *   slow_leak     for each line on stdin it prints how many bytes it has leaked; it ends with stdin
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOIPA __attribute__((noipa))
#define COPY  1024
#define TICK  62 /* ms */

static unsigned long leaked;

/* The leak. */
NOIPA void remember(const char *row)
{
	char *copy = malloc(COPY);
	if (!copy)
		exit(1);
	memcpy(copy, row, COPY);
	leaked += COPY;
}

NOIPA void handle_request(int number)
{
	char *row = malloc(COPY);
	if (!row)
		exit(1);
	memset(row, number, COPY);
	remember(row);
	free(row);
}

int main(void)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	char line[64];

	for (int number = 0;; number++) {
		handle_request(number);
		if (poll(&in, 1, TICK) <= 0)
			continue;
		if (read(0, line, sizeof(line)) <= 0)
			return 0;
		printf("%lu\n", leaked);
		fflush(stdout);
	}
}
