/*
 * Has memory of known size, for tests that read /proc: prints one line
 *
 *   {"pid":…,"private_bytes":…,"untouched_bytes":…,"threads":…,"twin":…}
 *
 * and waits until stdin ends. With the argument "twin" a second process shares
 * the address space (CLONE_VM), else twin is 0. Once all its threads sleep, and
 * the twin, its memory changes no more: huge pages would bring some that nobody
 * has touched.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PRIVATE   (48UL << 20)
#define UNTOUCHED (64UL << 20)
#define WORKERS   3
#define STACK     (64UL << 10)

static sem_t named;

static char *map(size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		_exit(1);
	}
	return p;
}

static void *work(void *number)
{
	char name[16];
	snprintf(name, sizeof name, "worker-%ld", (long)number);
	prctl(PR_SET_NAME, name);
	sem_post(&named);
	for (;;)
		pause();
	return NULL;
}

static int twin(void *unused)
{
	(void)unused;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
	return 0;
}

int main(int argc, char **argv)
{
	int other = 0;
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	sem_init(&named, 0, 0);
	memset(map(PRIVATE), 1, PRIVATE);
	map(UNTOUCHED);
	for (long i = 0; i < WORKERS; i++) {
		pthread_t t;
		if (pthread_create(&t, NULL, work, (void *)i) != 0)
			return 1;
	}
	for (int i = 0; i < WORKERS; i++)
		sem_wait(&named);
	if (argc > 1 && strcmp(argv[1], "twin") == 0)
		other = clone(twin, map(STACK) + STACK, CLONE_VM | SIGCHLD, NULL);
	printf("{\"pid\":%d,\"private_bytes\":%lu,\"untouched_bytes\":%lu,\"threads\":%d,\"twin\":%d}\n", getpid(), PRIVATE, UNTOUCHED, WORKERS + 1, other);
	fflush(stdout);
	while (getchar() != EOF)
		;
	if (other > 0) {
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
	}
	return 0;
}
