// Leaves functions that allocate in all other ways than by a return to whom they were called by: by exceptions, by longjmp, and
// by a switch to another stack, from which some go on before others that came in later, and some in another thread. The
// answer adds "takes", the calls of take, of which "left" never returned and "waited" went on after another stack had run.
//
// With "news" it is operator new that is left, by std::bad_alloc. "left" of its calls were.
#include "target.h"

#include <csetjmp>
#include <new>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

#define ROUNDS 50
#define HEADER 16
#define STACK  (64 << 10)
#define DEEPER 4096

enum how { RETURNS, THROWS, JUMPS, WAITS };

static struct site kept_site = {"keep"};
static struct site given_site = {"take_and_give"};
static struct site passed_site = {"keep_passed"};
static struct site dropped_site = {"take_and_drop"};
static struct site deeper_site = {"keep_deeper"};
static struct site new_site = {"new_and_keep"};
static unsigned long takes, left, waited;
static jmp_buf landing;
static ucontext_t scheduler, *running;
static void *kept[ROUNDS * 16];
static unsigned kept_count;

extern "C" NOIPA void *take(size_t size, enum how how)
{
	char *block = (char *)malloc(size + HEADER);
	if (how == THROWS || how == JUMPS) {
		free(block);
		if (how == JUMPS)
			longjmp(landing, 1);
		throw 1;
	}
	if (how == WAITS)
		swapcontext(running, &scheduler);
	return block + HEADER;
}

extern "C" NOIPA void give(void *block)
{
	free((char *)block - HEADER);
}

// They jump to malloc and free, which return for them.
#define JUMPS_ON __attribute__((noipa, used, optimize("O2", "optimize-sibling-calls")))
extern "C" JUMPS_ON void *pass_on(size_t size)
{
	return malloc(size);
}

extern "C" JUMPS_ON void pass_back(void *block)
{
	free(block);
}

// It jumps on through a pointer: where it returns is not seen.
static void (*volatile dropping)(void *) = [](void *block) { free((char *)block - HEADER); };
extern "C" JUMPS_ON void drop(void *block)
{
	dropping(block);
}

extern "C" NOIPA void take_and_drop(void)
{
	takes++;
	void *block = took(&dropped_site, take(90, RETURNS), 90);
	gone(&dropped_site, 90);
	drop(block);
}

// Its frame lies over the return address of the drop before, and leaves that as it is.
extern "C" NOIPA void keep_deeper(void)
{
	char room[DEEPER];
	asm volatile("" : : "r"(room) : "memory");
	takes++;
	kept[kept_count++] = took(&deeper_site, take(50, RETURNS), 50);
}

// Now and then more than malloc has at hand.
extern "C" NOIPA void keep_passed(void)
{
	for (size_t size = 10; size <= 100000; size *= 10) {
		kept[kept_count++] = took(&passed_site, pass_on(size), size);
		void *block = took(&passed_site, pass_on(size), size);
		gone(&passed_site, size);
		pass_back(block);
	}
}

extern "C" NOIPA void keep(void)
{
	takes++;
	kept[kept_count++] = took(&kept_site, take(40, RETURNS), 40);
}

extern "C" NOIPA void take_and_give(void)
{
	takes++;
	void *block = took(&given_site, take(70, RETURNS), 70);
	gone(&given_site, 70);
	give(block);
}

extern "C" NOIPA void thrown(void)
{
	try {
		takes++;
		take(1000, THROWS);
	} catch (int) {
		left++;
	}
}

NOIPA void jumps(int depth)
{
	if (depth > 0) {
		jumps(depth - 1);
		asm volatile("" ::: "memory");
		return;
	}
	takes++;
	left++;
	take(2000, JUMPS);
}

// What a fiber does: wait inside take, twice.
extern "C" void fiber(void)
{
	for (int i = 0; i < 2; i++) {
		takes++;
		waited++;
		void *block = take(300, WAITS);
		memset(block, i, 300);
		give(block);
	}
	swapcontext(running, &scheduler);
}

static ucontext_t *make_fiber(ucontext_t *context, char *stack)
{
	getcontext(context);
	context->uc_stack.ss_sp = stack;
	context->uc_stack.ss_size = STACK;
	context->uc_link = NULL;
	makecontext(context, fiber, 0);
	return context;
}

static void *go_on(void *context)
{
	running = (ucontext_t *)context;
	swapcontext(&scheduler, running);
	return NULL;
}

static void go_on_elsewhere(ucontext_t *context)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, go_on, context))
		_exit(1);
	pthread_join(thread, NULL);
}

// Two fibers of one thread, which lie on their stacks in either order; then one that each thread goes on with.
static void fibers(void)
{
	static ucontext_t contexts[2];
	char *stacks = (char *)mmap(NULL, 4 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int order = 0; order < 2; order++) {
		for (int i = 0; i < 2; i++)
			make_fiber(&contexts[i], stacks + (i ^ order) * 2 * STACK);
		for (int step = 0; step < 3; step++)
			for (int i = 0; i < 2; i++)
				go_on(&contexts[i]);
	}
	make_fiber(&contexts[0], stacks);
	for (int step = 0; step < 3; step++)
		go_on_elsewhere(&contexts[0]);
	munmap(stacks, 4 * STACK);
}

static void refuse(void)
{
	throw std::bad_alloc();
}

extern "C" NOIPA void new_and_keep(size_t size)
{
	try {
		takes++;
		kept[kept_count++] = took(&new_site, ::operator new(size), size);
	} catch (const std::bad_alloc &) {
		left++;
	}
}

static void news(void)
{
	struct rlimit limit = {8UL << 30, 8UL << 30};
	setrlimit(RLIMIT_AS, &limit);
	std::set_new_handler(refuse);
	for (int i = 0; i < ROUNDS; i++) {
		new_and_keep(24);
		new_and_keep(16UL << 30);
		new_and_keep(3000 + i);
		new_and_keep(100 << 10);
		new_and_keep(17UL << 30);
	}
}

int main(int argc, char **argv)
{
	static struct site *sites[] = {&kept_site, &given_site, &passed_site, &dropped_site, &deeper_site, &new_site};
	target_begin(argc, argv);
	if (argc > 2 && !strcmp(argv[2], "news")) {
		news();
	} else {
		for (volatile int i = 0; i < ROUNDS; i = i + 1) {
			keep();
			thrown();
			take_and_give();
			thrown();
			if (setjmp(landing) == 0)
				jumps(i % 5);
			keep();
			keep_passed();
			take_and_drop();
			keep_deeper();
			if (i % 10 == 0)
				fibers();
		}
	}
	target_answer("leaves", 1, sites, COUNT_OF(sites));
	say(",\"takes\":%lu,\"left\":%lu,\"waited\":%lu", takes, left, waited);
	target_end();
	return 0;
}
