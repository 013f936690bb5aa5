/*
 * Ends in the way that its argument names. "magic" in its memory shows that
 * the memory is still there; threads is the number of threads at the end.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile uint64_t magic[2] = {0x6d656d7472616365, 0};
static pthread_barrier_t up;
volatile int in_register;

static void *sleeper(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&up);
	/* Known to a register only: read it must be from there. */
	register uint64_t r12 __asm__("r12") = 0x7265676973746572;
	__asm__ volatile("movl $1, in_register(%%rip)\n1: mov $34, %%eax\n syscall\n jmp 1b" : : "r"(r12) : "rax", "rcx", "r11", "memory"); /* pause */
	return NULL;
}

static void *ender(void *unused)
{
	pthread_barrier_wait(&up);
	exit(7);
	return unused;
}

static void *last(void *main_thread)
{
	pthread_join(*(pthread_t *)main_thread, NULL);
	return NULL;
}

static char *const again[] = {"ends", "return", NULL};

static void *execer(void *unused)
{
	pthread_barrier_wait(&up);
	execv("/proc/self/exe", again);
	return unused;
}

static void *nothing(void *unused) { return unused; }

static volatile int handled;
static void on_signal(int unused)
{
	(void)unused;
	handled++;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

/* Prints the ns that a handled signal takes, a new thread and a child. */
static void measure(void)
{
	pthread_t t;
	double at[4] = {now()};
	signal(SIGUSR1, on_signal);
	for (int i = 0; i < 10000; i++)
		raise(SIGUSR1);
	at[1] = now();
	for (int i = 0; i < 2000; i++) {
		pthread_create(&t, NULL, nothing, NULL);
		pthread_join(t, NULL);
	}
	at[2] = now();
	for (int i = 0; i < 500; i++) {
		if (fork() == 0)
			_exit(0);
		wait(NULL);
	}
	at[3] = now();
	printf("%.0f %.0f %.0f\n", (at[1] - at[0]) / 10000, (at[2] - at[1]) / 2000, (at[3] - at[2]) / 500);
	fflush(stdout);
}

static void start(void *(*body)(void *))
{
	pthread_t t;
	pthread_barrier_init(&up, NULL, 2);
	pthread_create(&t, NULL, body, NULL);
	pthread_barrier_wait(&up);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	static pthread_t self, t;
	self = pthread_self();
	if (!strcmp(how, "return")) {
		return 7;
	} else if (!strcmp(how, "_exit")) {
		start(sleeper);
		while (!in_register)
			sched_yield();
		_exit(7);
	} else if (!strcmp(how, "wait")) {
		start(sleeper);
		while (!in_register)
			sched_yield();
		puts("ready");
		fflush(stdout);
		pause();
	} else if (!strcmp(how, "thread")) {
		start(ender);
		pause();
	} else if (!strcmp(how, "last")) {
		pthread_create(&t, NULL, last, &self);
		pthread_exit(NULL);
	} else if (!strcmp(how, "exec")) {
		start(execer);
		pause();
	} else if (!strcmp(how, "churn")) {
		for (int i = 0; i < 100; i++) {
			pthread_create(&t, NULL, nothing, NULL);
			pthread_join(t, NULL);
		}
		return 7;
	} else if (!strcmp(how, "measure")) {
		char c;
		while (read(0, &c, 1) > 0)
			measure();
		return 7;
	} else if (!strcmp(how, "abort")) {
		abort();
	} else if (!strcmp(how, "segv")) {
		*(volatile int *)8 = 1;
	} else if (!strcmp(how, "term")) {
		raise(SIGTERM);
	} else if (!strcmp(how, "stop")) {
		/* A child continues us once we are seen to be stopped. */
		pid_t parent = getpid();
		if (fork() == 0) {
			char path[64], state = 0;
			snprintf(path, sizeof(path), "/proc/%d/stat", parent);
			while (state != 't' && state != 'T') {
				FILE *f = fopen(path, "r");
				if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
					_exit(1);
				fclose(f);
			}
			kill(parent, SIGCONT);
			_exit(0);
		}
		raise(SIGSTOP);
		wait(NULL);
		return 7;
	}
	return 1;
}
