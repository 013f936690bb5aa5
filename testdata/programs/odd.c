/*
 * Does what a tracer could break, and says how it went. With "wait" as the second argument it says "ready" and
 * reads a line before it begins.
 *
 *   odd sigwait     blocks a signal, and reads it by sigwait each time that it has allocated
 *   odd signalfd    the same with a signalfd
 *   odd waits       has threads that wait in calls that a stop can end early, tries to execute what is no program, and wakes them
 *   odd namespaces  allocates in a child in a user and a PID namespace of its own
 *   odd seized      has a child take it under ptrace before it begins, which passes on its signals
 *   odd coroutines  allocates on stacks of its own, which it switches inside of what it calls between
 *   odd filter      allocates under a seccomp filter that kills for every call that it does not need
 *   odd strict      allocates in seccomp's strict mode, and ends with 7
 *   odd traceme     asks to be traced by its parent
 *   odd debugger    starts a child, takes it under ptrace, and says how it ended
 *   odd debugged    is about to die of a fault: has a child of another program take it under ptrace first, and ends with 3
 *   odd dumped      is about to die of a fault: a child that nobody may trace takes it under ptrace, as breakpad's does, and it ends with 3
 *   odd dump        the same with no fault, and runs on
 *   odd handed      is about to die of a fault: a process that waits for that takes it under ptrace, as crashpad's does, and it ends with 3
 *   odd handles     has many faults, whose handlers return or jump out
 *   odd raised PROGRAM   becomes nobody, and executes a program that is setuid root: "user 0"
 *   odd busy        allocates in a thread and has one child after the other, until it is killed
 *   odd bye         says so, without flushing; built with a sanitizer, it is checked for leaks after that
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static const char *self;

static void allocate(int times)
{
	for (int i = 0; i < times; i++) {
		char *volatile block = malloc(100 + i % 8);

		block[0] = 1;
		free(block);
	}
}

static int read_signals(void)
{
	sigset_t all;
	int signal, good = 0;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	for (int i = 0; i < 100; i++) {
		allocate(10);
		kill(getpid(), SIGUSR1);
		good += sigwait(&all, &signal) == 0 && signal == SIGUSR1;
	}
	printf("signals %d\n", good);
	return 0;
}

static int read_by_signalfd(void)
{
	struct signalfd_siginfo got;
	sigset_t all;
	int fd, good = 0;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	fd = signalfd(-1, &all, SFD_NONBLOCK);
	for (int i = 0; i < 100; i++) {
		allocate(10);
		kill(getpid(), SIGUSR1);
		good += read(fd, &got, sizeof(got)) == sizeof(got) && got.ssi_signo == SIGUSR1;
		good -= read(fd, &got, sizeof(got)) >= 0; /* any other */
	}
	printf("signals %d\n", good);
	return 0;
}

/* How threads wait, how they are woken, and how often that ended before they were. */
static int epoll, woken_by_epoll, semaphores, watch, watched;
static sem_t posted;
static int early[6];

static int in_epoll(void)
{
	struct epoll_event event;

	return epoll_wait(epoll, &event, 1, -1);
}

static int in_semop(void)
{
	struct sembuf take = {.sem_op = -1};

	return semop(semaphores, &take, 1);
}

static int in_sigwait(void)
{
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, SIGUSR2);
	return sigwaitinfo(&one, NULL);
}

static int in_inotify(void)
{
	char event[sizeof(struct inotify_event) + 256];

	return read(watch, event, sizeof(event));
}

static int in_futex(void) { return sem_wait(&posted); }

static int in_sleep(void)
{
	struct timespec before, after, time = {.tv_nsec = 700 * 1000 * 1000};
	int slept;

	clock_gettime(CLOCK_MONOTONIC, &before);
	slept = nanosleep(&time, NULL);
	clock_gettime(CLOCK_MONOTONIC, &after);
	return slept || (after.tv_sec - before.tv_sec) * 1000000000L + after.tv_nsec - before.tv_nsec < time.tv_nsec ? -1 : 0;
}

static int (*const waits[])(void) = {in_epoll, in_semop, in_sigwait, in_inotify, in_futex, in_sleep};
#define WAITS (sizeof(waits) / sizeof(*waits))
#ifndef SYS_epoll_wait
#define SYS_epoll_wait SYS_epoll_pwait
#endif
static const long calls[WAITS] = {SYS_epoll_wait, SYS_semtimedop, SYS_rt_sigtimedwait, SYS_read, SYS_futex, SYS_clock_nanosleep};
static pthread_t waiters[WAITS];
static pid_t waiting[WAITS];

static void *wait_in(void *number)
{
	long n = (long)number;

	__atomic_store_n(&waiting[n], gettid(), __ATOMIC_RELEASE);
	while (waits[n]() < 0)
		early[n]++;
	return NULL;
}

/* Waits until a thread is in the call that it waits in. */
static void until_waiting(long n)
{
	char path[64];
	FILE *file;
	long call = -1;
	pid_t tid;

	while (!(tid = __atomic_load_n(&waiting[n], __ATOMIC_ACQUIRE)))
		sched_yield();
	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	while (call != calls[n]) {
		call = -1;
		if ((file = fopen(path, "r"))) {
			if (fscanf(file, "%ld", &call) != 1)
				call = -1;
			fclose(file);
		}
	}
}

static void start_waits(void)
{
	static char name[] = "/tmp/odd-XXXXXX";
	struct epoll_event event = {.events = EPOLLIN};
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &one, NULL);
	epoll = epoll_create1(0);
	woken_by_epoll = eventfd(0, 0);
	epoll_ctl(epoll, EPOLL_CTL_ADD, woken_by_epoll, &event);
	semaphores = semget(IPC_PRIVATE, 1, 0600);
	watched = mkstemp(name);
	watch = inotify_init();
	inotify_add_watch(watch, name, IN_MODIFY);
	unlink(name);
	sem_init(&posted, 0, 0);
	for (long i = 0; i < (long)WAITS; i++) {
		pthread_create(&waiters[i], NULL, wait_in, (void *)i);
		until_waiting(i);
	}
}

static int wake_all(void)
{
	struct sembuf give = {.sem_op = 1};
	uint64_t one = 1;
	int failed = 0;

	allocate(1000);
	failed += execl("/dev/null", "null", (char *)NULL) == -1 && errno == EACCES;
	allocate(1000);
	failed -= write(woken_by_epoll, &one, sizeof(one)) == sizeof(one);
	failed -= semop(semaphores, &give, 1) == 0;
	failed -= pthread_kill(waiters[2], SIGUSR2) == 0;
	failed -= write(watched, "x", 1) == 1;
	failed -= sem_post(&posted) == 0;
	for (size_t i = 0; i < WAITS; i++)
		pthread_join(waiters[i], NULL);
	semctl(semaphores, 0, IPC_RMID);
	printf("woken %d, early", 1 - failed);
	for (size_t i = 0; i < WAITS; i++)
		printf(" %d", early[i]);
	puts("");
	return 0;
}

static int in_namespaces(void)
{
	int status;

	if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS)) {
		perror("unshare");
		return 1;
	}
	if (fork() == 0) {
		allocate(1000);
		printf("process %d of user %d\n", getpid(), getuid());
		exit(6);
	}
	allocate(1000);
	wait(&status);
	return WEXITSTATUS(status);
}

static volatile int passed;

static void on_passed(int signal)
{
	(void)signal;
	passed++;
}

/* Starts a child that has this process under ptrace until it ends. */
static void take_by_child(void)
{
	int ready[2], status;
	pid_t parent = getpid();
	char byte;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if (pipe(ready))
		exit(1);
	if (fork() == 0) {
		if (ptrace(PTRACE_SEIZE, parent, 0, 0))
			_exit(1);
		close(1); /* else who reads what the parent says waits for this one, too */
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		while (waitpid(parent, &status, __WALL) == parent && WIFSTOPPED(status))
			ptrace(PTRACE_CONT, parent, 0, WSTOPSIG(status));
		_exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		exit(1);
}

static int seized(void)
{
	signal(SIGUSR1, on_passed);
	for (int i = 0; i < 10; i++) {
		allocate(100);
		raise(SIGUSR1);
	}
	printf("passed on %d\n", passed);
	return 4;
}

static ucontext_t scheduler, fibers[4];

static void fiber(int number)
{
	for (int i = 0; i < 50; i++) {
		char *block = malloc(100 + number);

		swapcontext(&fibers[number], &scheduler); /* others allocate before this one is freed */
		free(block);
	}
}

static int switch_stacks(void)
{
	for (volatile int i = 0; i < 4; i++) {
		getcontext(&fibers[i]);
		fibers[i].uc_stack.ss_sp = malloc(64 << 10);
		fibers[i].uc_stack.ss_size = 64 << 10;
		fibers[i].uc_link = &scheduler;
		makecontext(&fibers[i], (void (*)(void))fiber, 1, i);
	}
	for (int turn = 0; turn < 51; turn++)
		for (int i = 0; i < 4; i++)
			swapcontext(&scheduler, &fibers[i]);
	puts("switched");
	return 0;
}

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(write), ALLOW(exit_group), ALLOW(brk), ALLOW(mmap), ALLOW(munmap), ALLOW(fstat), ALLOW(newfstatat), ALLOW(getrandom),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(*code), .filter = code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 1;
	allocate(1000);
	free(malloc(1 << 20));
	puts("filtered");
	return 0;
}

static int strict(void)
{
	allocate(10); /* what the heap needs to begin with */
	fflush(stdout);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		return 1;
	allocate(1000);
	if (write(1, "strict\n", 7) == 7)
		syscall(SYS_exit, 7);
	return 1;
}

static int debugger(void)
{
	int status, seized;
	pid_t child = fork();

	if (child == 0) {
		allocate(100);
		raise(SIGSTOP);
		allocate(100);
		_exit(5);
	}
	waitpid(child, &status, WUNTRACED);
	seized = ptrace(PTRACE_SEIZE, child, 0, 0) ? errno : 0;
	kill(child, SIGCONT);
	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status))
		ptrace(PTRACE_CONT, child, 0, 0);
	printf("seized %d, ended with %d\n", seized, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	return 0;
}

static void on_fault(int signal)
{
	char number[16];
	pid_t child;

	(void)signal;
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* as crash handlers do, for yama */
	snprintf(number, sizeof(number), "%d", getpid());
	child = fork();
	if (child == 0) {
		execl(self, self, "attach", number, (char *)NULL);
		_exit(1);
	}
	waitpid(child, NULL, 0);
	_exit(3);
}

static int attach(pid_t pid)
{
	int status = 0, attached = ptrace(PTRACE_ATTACH, pid, 0, 0) ? errno : 0;

	if (attached == 0) {
		waitpid(pid, &status, 0);
		ptrace(PTRACE_DETACH, pid, 0, 0);
	}
	printf("attached %d, stopped by %d\n", attached, WSTOPSIG(status));
	return 0;
}

static int debugged(void)
{
	allocate(100);
	signal(SIGSEGV, on_fault);
	raise(SIGSEGV);
	return 1;
}

/* Takes a process under ptrace by system calls of its own, which no probe at ptrace sees, and lets it go. */
static void take_by_itself(pid_t pid)
{
	int status = 0, attached = syscall(SYS_ptrace, PTRACE_ATTACH, pid, 0, 0) ? errno : 0;

	if (attached == 0) {
		waitpid(pid, &status, __WALL);
		syscall(SYS_ptrace, PTRACE_DETACH, pid, 0, 0);
	}
	dprintf(1, "taken %d, stopped by %d\n", attached, WSTOPSIG(status));
}

/* Has a child take this process under ptrace that no tracer of this one gets with it. */
static void dump(void)
{
	pid_t parent = getpid(), child;
	int begin[2];
	char byte;

	if (pipe(begin))
		_exit(1);
	child = syscall(SYS_clone, CLONE_FS | CLONE_UNTRACED, 0, 0, 0, 0);
	if (child == 0) {
		if (read(begin[0], &byte, 1) == 1)
			take_by_itself(parent);
		_exit(0);
	}
	syscall(SYS_prctl, PR_SET_PTRACER, child, 0, 0, 0);
	if (write(begin[1], "", 1) == 1)
		waitpid(child, NULL, __WALL);
}

static void on_dumped(int signal)
{
	(void)signal;
	dump();
	_exit(3);
}

static int dumped(void)
{
	allocate(100);
	signal(SIGSEGV, on_dumped);
	raise(SIGSEGV);
	return 1;
}

static int dump_and_go_on(void)
{
	allocate(100);
	dump();
	allocate(100);
	puts("goes on");
	return 0;
}

static int ask[2], answer[2];
static pid_t taker;

/* Starts the process that takes this one under ptrace once it is asked to. */
static void start_taker(void)
{
	pid_t parent = getpid();
	char byte;

	if (pipe(ask) || pipe(answer))
		exit(1);
	taker = fork();
	if (taker == 0) {
		close(ask[1]);
		if (read(ask[0], &byte, 1) == 1) {
			take_by_itself(parent);
			if (write(answer[1], "", 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
}

static void on_handed(int signal)
{
	char byte;

	(void)signal;
	syscall(SYS_prctl, PR_SET_PTRACER, taker, 0, 0, 0);
	if (write(ask[1], "", 1) == 1 && read(answer[0], &byte, 1) == 1)
		_exit(3);
	_exit(1);
}

static int handed(void)
{
	allocate(100);
	signal(SIGSEGV, on_handed);
	raise(SIGSEGV);
	return 1;
}

static jmp_buf before_fault;
static volatile sig_atomic_t jumps, returned;

static void on_handled(int signal)
{
	(void)signal;
	if (jumps)
		siglongjmp(before_fault, 1);
	returned++;
}

static int handles(void)
{
	volatile int jumped = 0;

	signal(SIGSEGV, on_handled);
	for (int i = 0; i < 50; i++)
		raise(SIGSEGV);
	jumps = 1;
	for (volatile int i = 0; i < 50; i++) {
		allocate(10);
		if (sigsetjmp(before_fault, 1) == 0)
			raise(SIGSEGV);
		else
			jumped++;
	}
	printf("returned %d, jumped %d\n", (int)returned, jumped);
	return 0;
}

static int raised(const char *program)
{
	allocate(100);
	fflush(stdout);
	if (setgid(65534) == 0 && setuid(65534) == 0)
		execl(program, program, "user", (char *)NULL);
	perror(program);
	return 1;
}

static void *allocate_on(void *unused)
{
	(void)unused;
	for (;;)
		allocate(1000);
	return NULL;
}

static int busy(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, allocate_on, NULL);
	for (;;) {
		pid_t child = fork();

		if (child == 0) {
			allocate(100);
			exit(0);
		}
		waitpid(child, NULL, 0);
		usleep(1000);
	}
	return 1;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	self = argv[0];
	if (strcmp(mode, "waits") == 0)
		start_waits();
	if (strcmp(mode, "seized") == 0)
		take_by_child();
	if (strcmp(mode, "handed") == 0)
		start_taker();
	if (argc > 2 && strcmp(argv[2], "wait") == 0) {
		puts("ready");
		fflush(stdout);
		while (getchar() != '\n')
			; /* what is left unread, exit gives back by a call that the filter doesn't know */
	}
	if (strcmp(mode, "sigwait") == 0)
		return read_signals();
	if (strcmp(mode, "signalfd") == 0)
		return read_by_signalfd();
	if (strcmp(mode, "waits") == 0)
		return wake_all();
	if (strcmp(mode, "namespaces") == 0)
		return in_namespaces();
	if (strcmp(mode, "seized") == 0)
		return seized();
	if (strcmp(mode, "coroutines") == 0)
		return switch_stacks();
	if (strcmp(mode, "filter") == 0)
		return filter();
	if (strcmp(mode, "strict") == 0)
		return strict();
	if (strcmp(mode, "traceme") == 0)
		return printf("traced %ld\n", ptrace(PTRACE_TRACEME, 0, 0, 0)) < 0;
	if (strcmp(mode, "debugger") == 0)
		return debugger();
	if (strcmp(mode, "debugged") == 0)
		return debugged();
	if (strcmp(mode, "dumped") == 0)
		return dumped();
	if (strcmp(mode, "dump") == 0)
		return dump_and_go_on();
	if (strcmp(mode, "handed") == 0)
		return handed();
	if (strcmp(mode, "handles") == 0)
		return handles();
	if (strcmp(mode, "attach") == 0)
		return attach(atoi(argv[2]));
	if (strcmp(mode, "raised") == 0)
		return raised(argv[argc - 1]);
	if (strcmp(mode, "busy") == 0)
		return busy();
	if (strcmp(mode, "user") == 0)
		return printf("user %d\n", geteuid()) < 0;
	allocate(100);
	puts("bye");
	return 0;
}
