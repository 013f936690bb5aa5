/*
 * Ends in the way that its argument names, and says what it has lost by then:
 *
 *   lost PID SIZE before|after|always
 *
 * for each lost block, with when a look at the program finds it: before its
 * exit handlers have run, after, or at either time. See target.h for the modes.
 */
#include "target.h"

#include <pthread.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

static void *volatile kept_until_exit, *volatile kept_until_quick_exit, *volatile kept;
static uintptr_t volatile hidden_until_exit;

static void tell(size_t size, const char *when)
{
	say("lost %d %zu %s\n", (int)getpid(), size, when);
	flush_said();
}

NOIPA static void *block(size_t size)
{
	void *b = malloc(size);
	memset(b, 0, size);
	return b;
}

NOIPA static void lose(size_t size)
{
	target_sink = block(size);
	target_sink = NULL;
	tell(size, "always");
}

/* scrub overwrites what calls left on the stack. */
NOIPA static void scrub(void)
{
	volatile char room[4096];
	memset((void *)room, 0, sizeof(room));
	(void)room[17];
}

/* An exit handler that loses one block, and finds and frees another. */
static void at_exit(void)
{
	kept_until_exit = NULL;
	free((void *)~hidden_until_exit);
	hidden_until_exit = 0;
}

static void at_quick_exit_(void) { kept_until_quick_exit = NULL; }

/* Exit handlers of this kind run in what ends by exit, if it has the blocks. */
NOIPA static void prepare(int handlers)
{
	kept = block(50);
	kept_until_exit = block(1000);
	kept_until_quick_exit = block(2000);
	hidden_until_exit = ~(uintptr_t)block(3000);
	tell(3000, handlers == 1 ? "before" : "always");
	if (handlers == 1)
		tell(1000, "after");
	if (handlers == 2)
		tell(2000, "after");
	lose(100);
	scrub();
}

static void *exit_here(void *how)
{
	if (!strcmp(how, "thread_exit"))
		exit(3);
	if (!strcmp(how, "thread_exit_group"))
		syscall(SYS_exit_group, 3);
	abort();
}

static void *last(void *first)
{
	pthread_join(*(pthread_t *)first, NULL);
	scrub();
	return NULL; /* which is exit(0) */
}

static void *holder(void *up)
{
	void *volatile on_stack = block(60);
	__atomic_store_n((int *)up, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
	return on_stack;
}

/* A second thread, whose stack holds a block to the end. */
static void start_holder(void)
{
	static int up;
	pthread_t t;
	pthread_create(&t, NULL, holder, &up);
	while (!__atomic_load_n(&up, __ATOMIC_SEQ_CST))
		sched_yield();
}

static void wait_for(pid_t child)
{
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Three children: a copy, a program started by fork and exec, one by posix_spawn. */
static void children(char *self)
{
	char *argv[] = {self, "run", "return", NULL};
	pid_t child = fork();
	if (child == 0) {
		lose(300);
		scrub();
		_exit(0);
	}
	wait_for(child);
	child = fork();
	if (child == 0) {
		execv(self, argv);
		_exit(127);
	}
	wait_for(child);
	if (posix_spawn(&child, self, NULL, NULL, argv, environ) == 0)
		wait_for(child);
}

static void end(const char *how, char *self)
{
	static pthread_t t, me;
	me = pthread_self();
	if (!strcmp(how, "exit"))
		exit(3);
	if (!strcmp(how, "quick_exit"))
		quick_exit(3);
	if (!strcmp(how, "_exit"))
		_exit(3);
	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "segv"))
		*(volatile int *)8 = 1;
	if (!strcmp(how, "term"))
		raise(SIGTERM);
	if (!strcmp(how, "blocked")) { /* every signal that can be */
		sigset_t all;
		sigfillset(&all);
		sigprocmask(SIG_SETMASK, &all, NULL);
		exit(3);
	}
	if (!strcmp(how, "children"))
		children(self);
	if (!strncmp(how, "thread_", 7)) {
		pthread_create(&t, NULL, exit_here, (void *)how);
		pause();
	}
	if (!strcmp(how, "last_thread")) {
		pthread_create(&t, NULL, last, &me);
		pthread_exit(NULL);
	}
}

int main(int argc, char **argv)
{
	target_begin(argc, argv);
	const char *how = argc > 2 ? argv[2] : "return";
	static const char *const runs[] = {"return", "exit", "blocked", "children", "thread_exit", "last_thread"};
	int handlers = !strcmp(how, "quick_exit") ? 2 : 0;
	for (size_t i = 0; i < COUNT_OF(runs); i++)
		if (!strcmp(how, runs[i]))
			handlers = 1;
	atexit(at_exit);
	at_quick_exit(at_quick_exit_);
	if (strcmp(how, "last_thread"))
		start_holder();
	prepare(handlers);
	end(how, argv[0]);
	scrub();
	return 3;
}
