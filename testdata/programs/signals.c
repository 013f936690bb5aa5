/*
 * Says which signals it got.
 *
 *   signals count    SIGINT and SIGTERM ask it to end, which it does half a second later with 42: "signals N" came until then
 *   signals read     blocks all signals and reads them from a signalfd, while code that was just loaded allocates
 *   signals traced   a child that its parent has under ptrace, as strace has: "ready PID"; it calls exec in vain, and exit
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t asked;

static void on_signal(int signal)
{
	(void)signal;
	asked++;
}

static int count(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	puts("ready");
	fflush(stdout);
	while (!asked)
		usleep(1000);
	for (int i = 0; i < 50; i++)
		usleep(10000);
	printf("signals %d\n", asked);
	return 42;
}

static int allocate(int size)
{
	void *volatile block = malloc(size);

	free(block);
	return 0;
}

/* Through code that nobody has seen yet: a new copy of the library each time. */
static void allocate_through(const char *library)
{
	void *handle = dlopen(library, RTLD_NOW);
	int (*call)(int (*)(int), int) = handle ? (int (*)(int (*)(int), int))dlsym(handle, "call_back") : NULL;

	if (!call) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	call(allocate, 100);
	dlclose(handle);
}

static int read_all(const char *self)
{
	struct signalfd_siginfo info;
	char library[4096];
	sigset_t all;
	int got = 0, fd;

	snprintf(library, sizeof(library), "%.*s/libstacks.so", (int)(strrchr(self, '/') - self), self);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	fd = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
	puts("ready");
	fflush(stdout);
	getchar(); /* until it is let go on, or at the end of the input */
	for (int i = 0; i < 20; i++)
		allocate_through(library);
	while (read(fd, &info, sizeof(info)) == sizeof(info)) {
		printf("signal %d\n", info.ssi_signo);
		got++;
	}
	printf("signals %d\n", got);
	fflush(stdout);
	_exit(got ? 20 : 0);
}

static void say_asked(void)
{
	printf("signals %d\n", asked);
	fflush(stdout);
}

static int traced(void)
{
	struct sigaction action = {.sa_handler = on_signal};
	char *const arguments[] = {"none", NULL};

	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	sigaction(SIGURG, &action, NULL);
	atexit(say_asked);
	printf("ready %d\n", getpid());
	fflush(stdout);
	getchar();
	for (int i = 0; i < 20; i++) {
		free(malloc(100));
		execv("/", arguments);
	}
	exit(0);
}

static int trace(void)
{
	pid_t child = fork();
	int status, sent;

	if (child == 0)
		return traced();
	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		sent = WSTOPSIG(status);
		ptrace(PTRACE_CONT, child, NULL, (void *)(long)(sent == SIGTRAP ? 0 : sent));
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "traced"))
		return trace();
	return argc > 1 && !strcmp(argv[1], "read") ? read_all(argv[0]) : count();
}
