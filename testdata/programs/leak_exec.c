/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loses blocks and executes another program in its own place: itself with one
 * argument less, until there are none. Each program loses as many blocks of 1000
 * bytes as its first argument says, and holds one. Executes by the function that
 * the environment names in HOW: execv, execvp (which tries the folders of PATH),
 * fexecve, syscall (not by the C library's function), threads (execv while
 * another thread sleeps), or another (another thread than the first does
 * it all).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;
static char **next;
static void *volatile held;

__attribute__((noipa)) static void lose(int blocks)
{
	void *volatile block;

	for (int i = 0; i < blocks; i++)
		block = malloc(1000);
	block = NULL;
	(void)block;
}

/* scrub overwrites what calls left on the stack. */
__attribute__((noipa)) static void scrub(void)
{
	volatile char room[4096];

	memset((char *)room, 0, sizeof(room));
}

static void *in_thread(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* replace loses the blocks and executes the next program. */
static void *replace(void *blocks)
{
	const char *how = getenv("HOW") ? getenv("HOW") : "execv";

	held = malloc(100);
	lose(atoi(blocks));
	scrub();
	if (!strcmp(how, "execvp"))
		execvp("leak_exec", next);
	else if (!strcmp(how, "fexecve"))
		fexecve(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), next, environ);
	else if (!strcmp(how, "syscall"))
		syscall(SYS_execve, "/proc/self/exe", next, environ);
	else
		execv("/proc/self/exe", next);
	return NULL;
}

int main(int argc, char **argv)
{
	const char *how = getenv("HOW") ? getenv("HOW") : "execv";
	char *blocks = argv[1];
	pthread_t t;

	if (argc < 2)
		return 0;
	if (!strcmp(how, "threads") && pthread_create(&t, NULL, in_thread, NULL))
		return 6;
	argv[1] = argv[0];
	next = argv + 1;
	if (strcmp(how, "another"))
		replace(blocks);
	else if (!pthread_create(&t, NULL, replace, blocks))
		pthread_join(t, NULL);
	return 4;
}
