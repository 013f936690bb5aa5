/*
 * A service of `make demo-serve`: four times a second it handles an order, for which it allocates and frees a row, and
 * forgets a copy of it.
 *
 *   demo_leak [BYTES]     forgets so many bytes a second, 1024 without; 0: none. Until SIGTERM
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOIPA         __attribute__((noipa))
#define ORDERS_SECOND 4
#define ROW           512

/* The leak: the copy is used and never freed. */
NOIPA size_t remember_order(const char *row, size_t bytes)
{
	char *copy = malloc(bytes);
	if (!copy)
		exit(1);
	for (size_t i = 0; i < bytes; i++)
		copy[i] = row[i % ROW];
	return (size_t)copy[bytes / 2];
}

NOIPA size_t handle_order(int number, size_t forgets)
{
	size_t sum = 0;
	char *row = malloc(ROW);
	if (!row)
		exit(1);
	memset(row, number, ROW);
	if (forgets)
		sum = remember_order(row, forgets);
	free(row);
	return sum;
}

int main(int argc, char **argv)
{
	size_t forgets = argc > 1 ? strtoul(argv[1], NULL, 10) : 1024;
	struct timespec rest = { .tv_nsec = 1000000000L / ORDERS_SECOND };

	for (int number = 0;; number++) {
		handle_order(number, forgets / ORDERS_SECOND);
		nanosleep(&rest, NULL);
	}
}
