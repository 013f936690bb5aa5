/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Calls no function of an allocator. With the argument "own" it has a megabyte
 * from the kernel and uses it, as an allocator does that nobody knows.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "own")) {
		char *own = (char *)syscall(SYS_mmap, NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		memset(own, 1, 1 << 20);
	}
	return 0;
}
