/*
 * Makes children that allocate as their very first act, before any tracer
 * could look for them.
 *
 *   births run|attach HOW COUNT [AT_ONCE]
 *
 * HOW is how each of COUNT children is made, at most AT_ONCE (1) at a time:
 *
 *   fork      fork
 *   tree      fork; each child forks one of its own
 *   thread    fork, from a thread other than the first
 *   vfork     vfork; the child allocates in its parent's memory, then executes
 *   clone_vm  clone with CLONE_VM: a process in its parent's memory
 *   spawn     posix_spawn of this program
 *   exec      fork, then exec of this program
 *   static    fork, then exec of this program linked statically (NAME_static)
 *   prefork   fork; all children live until the parent was told to end them
 *
 * A child that has a memory of its own allocates 5 blocks of 100 bytes in
 * in_child and frees 3; one that shares it allocates 5 of 30 in in_shared and
 * frees none; a program that was executed allocates 7 of 300 in in_program and
 * frees 2. The answer sums up all children, as if each ran.
 */
#include "target.h"

#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define STACK_SIZE (256 << 10)

extern char **environ;

static struct site child_site = {"in_child"};
static struct site shared_site = {"in_shared"};
static struct site program_site = {"in_program"};
static struct site parent_site = {"in_parent"};
static char self[4096];
static const char *how;
static long running, at_once;
static int done[2]; /* prefork: a byte of each child that has allocated */

NOIPA void in_parent(void)
{
	for (int i = 0; i < 10; i++)
		took(&parent_site, malloc(1000), 1000);
}

NOIPA void in_child(void)
{
	for (int i = 0; i < 5; i++) {
		void *block = malloc(100);
		target_sink = block;
		if (i < 3)
			free(block);
	}
}

NOIPA void in_shared(void)
{
	for (int i = 0; i < 5; i++)
		target_sink = malloc(30);
}

NOIPA void in_program(void)
{
	for (int i = 0; i < 7; i++) {
		void *block = malloc(300);
		target_sink = block;
		if (i < 2)
			free(block);
	}
}

/* What one call of a function above adds to a site. */
static void expect(struct site *s, uint64_t blocks, uint64_t size, uint64_t freed)
{
	s->alloc += blocks;
	s->alloc_bytes += blocks * size;
	s->free += freed;
	s->live_count += blocks - freed;
	s->live_bytes += (blocks - freed) * size;
}

static int shared_main(void *unused)
{
	(void)unused;
	in_shared();
	return 0;
}

static pid_t clone_child(void)
{
	static char *stack;
	if (!stack)
		stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		_exit(1);
	expect(&shared_site, 5, 30, 0);
	return clone(shared_main, stack + STACK_SIZE, CLONE_VM | SIGCHLD, NULL);
}

static void execute(const char *path)
{
	char *const argv[] = {(char *)"births", (char *)"executed", NULL};
	execve(path, argv, environ);
	_exit(127);
}

static pid_t vfork_child(void)
{
	expect(&shared_site, 5, 30, 0);
	expect(&program_site, 7, 300, 2);
	pid_t pid = vfork();
	if (pid == 0) {
		in_shared();
		execute(self);
	}
	return pid;
}

static pid_t spawn_child(void)
{
	static char *const argv[] = {(char *)"births", (char *)"executed", NULL};
	pid_t pid;
	expect(&program_site, 7, 300, 2);
	return posix_spawn(&pid, self, NULL, NULL, argv, environ) ? -1 : pid;
}

static pid_t fork_child(void)
{
	int program = !strcmp(how, "exec") || !strcmp(how, "static"), tree = !strcmp(how, "tree");
	expect(&child_site, 5, 100, 3);
	if (tree)
		expect(&child_site, 5, 100, 3);
	if (program)
		expect(&program_site, 7, 300, 2);
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	in_child();
	if (tree && (pid = fork()) == 0) {
		in_child();
		_exit(0);
	}
	if (tree)
		waitpid(pid, NULL, 0);
	if (program) {
		if (!strcmp(how, "static"))
			strcat(self, "_static");
		execute(self);
	}
	if (!strcmp(how, "prefork") && write(done[1], "", 1) == 1)
		pause();
	_exit(0);
}

static void reap(void)
{
	int status;
	if (waitpid(-1, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
		_exit(1);
	running--;
}

static void make(void)
{
	pid_t pid;
	if (!strcmp(how, "vfork"))
		pid = vfork_child();
	else if (!strcmp(how, "clone_vm"))
		pid = clone_child();
	else if (!strcmp(how, "spawn"))
		pid = spawn_child();
	else
		pid = fork_child();
	if (pid < 0)
		_exit(1);
	running++;
	if (strcmp(how, "prefork"))
		while (running >= at_once)
			reap();
}

static void *make_all(void *count)
{
	for (long i = 0; i < (long)(intptr_t)count; i++)
		make();
	return NULL;
}

/* The prefork server's children end with it. */
static void end_children(void)
{
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	while (wait(NULL) > 0) {
	}
}

int main(int argc, char **argv)
{
	static struct site *sites[] = {&parent_site, &child_site, &shared_site, &program_site};
	if (argc == 2 && !strcmp(argv[1], "executed")) {
		in_program();
		return 0;
	}
	if (argc < 4)
		return 2;
	how = argv[2];
	at_once = target_argument(argc, argv, 2, 1);
	if (!strcmp(how, "clone_vm"))
		at_once = 1; /* the children use one stack */
	setpgid(0, 0);
	if (readlink("/proc/self/exe", self, sizeof(self) - 16) < 0)
		return 1;
	target_begin(argc, argv);
	if (pipe(done))
		return 1;
	in_parent();
	void *count = (void *)(intptr_t)target_argument(argc, argv, 1, 1);
	if (!strcmp(how, "thread")) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, make_all, count) || pthread_join(thread, NULL))
			return 1;
	} else {
		make_all(count);
	}
	int prefork = !strcmp(how, "prefork");
	char byte;
	for (long i = 0; i < running && prefork; i++)
		if (read(done[0], &byte, 1) != 1)
			return 1;
	while (running > 0 && !prefork)
		reap();
	target_answer("births", 1, sites, COUNT_OF(sites));
	say("}\n");
	flush_said();
	target_wait();
	if (prefork)
		end_children();
	return 0;
}
