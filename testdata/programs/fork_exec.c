/*
 * Makes processes in every way there is; each that runs this program's code
 * allocates known blocks and prints its own answer, with "how". The last line
 * of all has "final":true.
 *
 *   fork_exec run|attach [DELAY_MS]
 *
 * parent        allocates before and after
 * fork          3 children, each allocates and frees, after DELAY_MS
 * vfork         2 children that exec /bin/true; they allocate nothing
 * posix_spawn   2 children, likewise
 * clone_vm      a child process in the same memory; what it leaves live is the
 *               parent's too, and the parent frees some of it
 * exec          the parent replaces itself by this program in mode "second",
 *               which waits DELAY_MS and allocates again
 */
#include "target.h"

#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define STACK_SIZE (256 << 10)

extern char **environ;

static struct site before_site = {"before_children"};
static struct site after_site = {"after_children"};
static struct site fork_site = {"in_forked_child"};
static struct site clone_site = {"in_clone_vm_child"};
static struct site second_site = {"after_exec"};
static void *kept[256];
static void *shared[64];
static unsigned kept_count;
static long delay_ms;

static void pause_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};
	while (ms > 0 && nanosleep(&t, &t) < 0 && errno == EINTR) {
	}
}

static void answer(const char *how, int final, struct site **sites, size_t count)
{
	target_answer("fork_exec", final, sites, count);
	say(",\"how\":\"%s\",\"ppid\":%d}\n", how, (int)getppid());
	flush_said();
}

/* 40 blocks of 200 bytes, 10 freed. */
NOIPA void before_children(void)
{
	for (int i = 0; i < 40; i++) {
		void *block = took(&before_site, malloc(200), 200);
		if (i % 4 == 0) {
			gone(&before_site, 200);
			free(block);
		} else {
			kept[kept_count++] = block;
		}
	}
}

/* 12 blocks of 300 bytes. */
NOIPA void after_children(void)
{
	for (int i = 0; i < 12; i++)
		kept[kept_count++] = took(&after_site, malloc(300), 300);
}

/* 30 blocks of 100 bytes, 20 freed; and 5 that the parent made before are freed in this copy only. */
NOIPA void in_forked_child(void)
{
	for (int i = 0; i < 30; i++) {
		void *block = took(&fork_site, malloc(100), 100);
		if (i % 3) {
			gone(&fork_site, 100);
			free(block);
		}
	}
	for (int i = 0; i < 5; i++)
		free(kept[i]);
}

static void fork_children(void)
{
	static struct site *sites[] = {&fork_site};
	for (int i = 0; i < 3; i++) {
		pid_t child = fork();
		if (child == 0) {
			pause_ms(delay_ms);
			in_forked_child();
			target_answer("fork_exec", 0, sites, 1);
			say(",\"how\":\"fork\",\"ppid\":%d,\"freed_inherited\":5,\"freed_inherited_bytes\":1000}\n", (int)getppid());
			flush_said();
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
}

static void vfork_children(void)
{
	static char *const argv[] = {(char *)"true", NULL};
	for (int i = 0; i < 2; i++) {
		pid_t child = vfork();
		if (child == 0) {
			execve("/bin/true", argv, environ);
			_exit(127);
		}
		waitpid(child, NULL, 0);
	}
}

static void spawn_children(void)
{
	static char *const argv[] = {(char *)"true", NULL};
	for (int i = 0; i < 2; i++) {
		pid_t child;
		if (posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ) == 0)
			waitpid(child, NULL, 0);
	}
}

/* 20 blocks of 50 bytes, 5 freed here. */
NOIPA int in_clone_vm_child(void *unused)
{
	(void)unused;
	for (int i = 0; i < 20; i++)
		shared[i] = took(&clone_site, malloc(50), 50);
	for (int i = 0; i < 5; i++) {
		gone(&clone_site, 50);
		free(shared[i]);
	}
	return 0;
}

/* The child shares memory and, as the parent only waits, may use its thread's malloc state. */
static void clone_vm_child(void)
{
	char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		_exit(1);
	pid_t child = clone(in_clone_vm_child, stack + STACK_SIZE, CLONE_VM | SIGCHLD, NULL);
	if (child < 0)
		_exit(1);
	waitpid(child, NULL, 0);
	for (int i = 5; i < 10; i++) {
		gone(&clone_site, 50);
		free(shared[i]);
	}
	munmap(stack, STACK_SIZE);
}

/* 25 blocks of 400 bytes, 5 freed. */
NOIPA void after_exec(void)
{
	for (int i = 0; i < 25; i++) {
		void *block = took(&second_site, malloc(400), 400);
		if (i % 5 == 0) {
			gone(&second_site, 400);
			free(block);
		} else {
			kept[kept_count++] = block;
		}
	}
}

static int second(const char *mode)
{
	static struct site *sites[] = {&second_site};
	target_attach = strcmp(mode, "attach") == 0;
	pause_ms(delay_ms);
	after_exec();
	answer("exec", 1, sites, COUNT_OF(sites));
	target_wait();
	return 0;
}

int main(int argc, char **argv)
{
	static struct site *sites[] = {&before_site, &after_site, &clone_site};
	static char self[4096], delay[24];
	delay_ms = target_argument(argc, argv, 0, 0);
	if (argc == 4 && strcmp(argv[3], "second") == 0)
		return second(argv[1]);
	target_begin(argc, argv);
	before_children();
	fork_children();
	vfork_children();
	spawn_children();
	clone_vm_child();
	after_children();
	answer("parent", 0, sites, COUNT_OF(sites));
	target_wait();
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 1;
	snprintf(delay, sizeof(delay), "%ld", delay_ms);
	char *const again[] = {argv[0], argv[1], delay, (char *)"second", NULL};
	execve(self, again, environ);
	return 1;
}
