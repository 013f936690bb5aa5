/*
 * A process whose first thread ends while another one goes on. Commands on
 * stdin: "alloc N" (N blocks of 48 bytes, kept), "end" (the first thread calls
 * pthread_exit). Each is answered by "done" once it is true of the process.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int over;
static void *blocks;

static void allocate(long n)
{
	while (n-- > 0) {
		void **block = malloc(48);

		*block = blocks;
		blocks = block;
	}
}

/* The state of the first thread, as the kernel shows it. */
static char state(void)
{
	char text[512] = "";
	FILE *f = fopen("/proc/self/stat", "r");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	char *after = n ? strrchr(text, ')') : NULL;

	if (f)
		fclose(f);
	return after ? after[2] : '?';
}

static void end_first(void)
{
	pthread_mutex_lock(&lock);
	over = 1;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
	while (state() != 'Z')
		usleep(1000);
}

static void *serve(void *unused)
{
	char line[64];

	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "alloc ", 6))
			allocate(atol(line + 6));
		else if (!strncmp(line, "end", 3))
			end_first();
		puts("done");
		fflush(stdout);
	}
	_exit(0);
	return unused;
}

int main(void)
{
	pthread_t other;

	pthread_create(&other, NULL, serve, NULL);
	puts("ready");
	fflush(stdout);
	pthread_mutex_lock(&lock);
	while (!over)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	pthread_exit(NULL);
}
