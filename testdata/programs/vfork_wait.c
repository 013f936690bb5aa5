/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waits in vfork, where no signal stops it (state D), until its child has read all of stdin; then
 * says so.
 */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	char c;

	if (vfork() == 0) {
		write(STDOUT_FILENO, "waiting\n", 8);
		while (read(STDIN_FILENO, &c, 1) > 0)
			;
		_exit(0);
	}
	puts("on");
	return 0;
}
