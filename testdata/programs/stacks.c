/* Stacks of C code: every way that a compiler, libc or the kernel lays a frame out. */
#include "stacks.h"
#include <alloca.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

static volatile int zero;

NOIPA static int recurse(int depth)
{
	volatile char frame[depth * 24 + 8]; /* variable length: a frame pointer */

	frame[0] = 1;
	if (depth == 0)
		return allocate(frame[0]);
	return recurse(depth - 1) + frame[0];
}

NOIPA static int with_alloca(int n)
{
	char *p = alloca(n);

	memset(p, n, n);
	return allocate(1) + p[n / 2];
}

/* A stack realigned beyond the ABI's 16 bytes: the CFA is behind a pointer. */
NOIPA static int realigned(int n)
{
	_Alignas(128) volatile char block[256];
	char *p = alloca(n);

	block[n] = 1;
	p[0] = block[n];
	return allocate(1) + p[0];
}

NOIPA static int many_registers(int a, int b, int c, int d, int e, int f)
{
	for (int i = 0; i < 2; i++) {
		a += allocate(b);
		b ^= c + d;
		d += e * f + a;
	}
	return a + b + c + d + e + f;
}

NOIPA static int big_frame(int n)
{
	volatile char big[40000];

	big[n] = n;
	return allocate(1) + big[n];
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b + allocate(0);
}

NOIPA static void sort(void)
{
	int numbers[] = {3, 1, 2, 5, 4};

	qsort(numbers, 5, sizeof(*numbers), compare);
	zero = numbers[0] & 0;
}

NOIPA static int tail_called(int n) { return allocate(n) + 1; }
NOIPA static int tail_caller(int n) { return tail_called(n + 1); }

static sigjmp_buf back;
NOIPA static void jump(void)
{
	allocate(0);
	siglongjmp(back, 1);
}

NOIPA static void long_jump(void)
{
	if (!sigsetjmp(back, 0))
		jump();
	allocate(0);
}

static void handler(int signal) { allocate(signal); }

static void handle(int number, int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	sigaction(number, &action, NULL);
}

NOIPA static void raise_signals(void)
{
	static char other[1 << 16];
	stack_t stack = {.ss_sp = other, .ss_size = sizeof(other)};

	handle(SIGUSR1, 0);
	raise(SIGUSR1);
	sigaltstack(&stack, NULL);
	handle(SIGUSR2, SA_ONSTACK);
	raise(SIGUSR2);
	handle(SIGSEGV, SA_ONSTACK | SA_NODEFER);
}

NOIPA static int leaf(int n) { return n * 3 + zero; }

/* A timer's signal strikes anywhere: prologues, epilogues, stubs, libc, the vDSO. */
NOIPA static void struck(int signals)
{
	struct itimerval every = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
	int until = blocks + signals;
	struct timeval now;
	char text[40];

	handle(SIGALRM, SA_RESTART);
	setitimer(ITIMER_REAL, &every, NULL);
	while (*(volatile int *)&blocks < until) {
		for (int i = 0; i < 50; i++) {
			zero = leaf(i) & 0;
			strcpy(text, "abc");
			zero = strlen(text) & 0;
			zero = atoi("12") & 0;
			gettimeofday(&now, NULL);
			zero = abs(i) & 0;
		}
	}
	setitimer(ITIMER_REAL, &never, NULL);
}

static ucontext_t outside, inside;

static void coroutine(void)
{
	allocate(0);
	swapcontext(&inside, &outside);
	allocate(0);
}

NOIPA static void coroutines(void)
{
	static char stack[1 << 16];

	getcontext(&inside);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = sizeof(stack);
	inside.uc_link = &outside;
	makecontext(&inside, coroutine, 0);
	swapcontext(&outside, &inside);
	swapcontext(&outside, &inside);
}

static void *thread(void *argument)
{
	recurse(5);
	return argument;
}

NOIPA static void threads(void)
{
	pthread_t t;

	pthread_create(&t, NULL, thread, NULL);
	pthread_join(t, NULL);
}

#ifndef NO_DLOPEN
static int callback(int n) { return allocate(n); }

NOIPA static void loaded(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 20);
	int (*call)(int (*)(int), int);
	void *library;

	path[n] = 0;
	strcpy(strrchr(path, '/') + 1, "libstacks.so");
	library = dlopen(path, RTLD_NOW);
	if (!library || !(call = (int (*)(int (*)(int), int))dlsym(library, "call_back"))) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	/* The tables of what was just loaded come a little later, maybe once it is met: who traces says when it has them. */
	call(callback, 0);
	puts("loaded");
	fflush(stdout);
	wait_for_line();
	for (int i = 1; i < 20; i++)
		call(callback, i);
}
#endif

static void run(void)
{
	case_name = "plain";
	allocate(0);
	case_name = "recursion";
	recurse(20);
	case_name = "alloca";
	with_alloca(100);
	case_name = "realigned";
	realigned(77);
	case_name = "registers";
	many_registers(1, 2, 3, 4, 5, 6);
	case_name = "bigframe";
	big_frame(5);
	case_name = "qsort";
	sort();
	case_name = "tailcall";
	tail_caller(1);
	case_name = "longjmp";
	long_jump();
	case_name = "coroutine";
	coroutines();
	case_name = "thread";
	threads();
	case_name = "signal";
	raise_signals();
	case_name = "struck";
	struck(500);
#ifndef NO_DLOPEN
	case_name = "dlopen";
	loaded();
#endif
}

int main(void) { return stacks_main(run); }
