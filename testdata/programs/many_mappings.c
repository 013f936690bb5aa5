/*
 * Maps parts of a file as code, again and again.
 *
 *   many_mappings FILE N     prints ready, and allocates now and then until stdin ends
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	long page = sysconf(_SC_PAGESIZE);
	int fd, n = argc > 2 ? atoi(argv[2]) : 0;

	if (argc < 3 || (fd = open(argv[1], O_RDONLY)) < 0)
		return 1;
	for (int i = 0; i < n; i++) /* every other page, lest the kernel make one mapping of them */
		if (mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 2L * page * i) == MAP_FAILED)
			return 1;
	puts("ready");
	fflush(stdout);
	do
		free(malloc(10));
	while (poll(&in, 1, 20) == 0);
	return 0;
}
