/*
 * Every way of holding and of losing a block. Each case allocates a block of a
 * size of its own, by which it is known, and says what a leak check that reads
 * all memory and all registers should find:
 *
 *   case NAME SIZE reachable|possible|indirect|definite
 *   …
 *   block ADDRESS SIZE        (all live blocks; not with -DNO_TABLE)
 *   ready
 *
 * Then it waits for the end of stdin and calls _exit, or with -DNO_TABLE, for
 * other leak checkers, exit. The table of live blocks holds addresses inverted,
 * so that it points to nothing.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#define NOIPA __attribute__((noipa, used))

/* ---- all live blocks ---- */

#ifndef NO_TABLE
extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);
}

enum { TABLE = 1 << 16 };
static uintptr_t table_key[TABLE]; /* ~address; 0: free, 1: was used */
static size_t table_size[TABLE];
static size_t last_size;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

static void table_put(void *block, size_t size)
{
	if (!block)
		return;
	pthread_mutex_lock(&table_lock);
	uintptr_t key = ~(uintptr_t)block;
	size_t i = (key >> 4) % TABLE;
	while (table_key[i] > 1)
		i = (i + 1) % TABLE;
	table_key[i] = key;
	table_size[i] = size;
	last_size = size;
	pthread_mutex_unlock(&table_lock);
}

static void table_drop(void *block)
{
	if (!block)
		return;
	pthread_mutex_lock(&table_lock);
	uintptr_t key = ~(uintptr_t)block;
	for (size_t i = (key >> 4) % TABLE; table_key[i]; i = (i + 1) % TABLE)
		if (table_key[i] == key) {
			table_key[i] = 1;
			break;
		}
	pthread_mutex_unlock(&table_lock);
}

extern "C" {
void *malloc(size_t n)
{
	void *b = __libc_malloc(n);
	table_put(b, n);
	return b;
}
void *calloc(size_t n, size_t m)
{
	void *b = __libc_calloc(n, m);
	table_put(b, n * m);
	return b;
}
void *realloc(void *old, size_t n)
{
	void *b = __libc_realloc(old, n);
	if (b) {
		table_drop(old);
		table_put(b, n);
	}
	return b;
}
void *memalign(size_t a, size_t n)
{
	void *b = __libc_memalign(a, n);
	table_put(b, n);
	return b;
}
void *aligned_alloc(size_t a, size_t n) { return memalign(a, n); }
int posix_memalign(void **to, size_t a, size_t n)
{
	*to = memalign(a, n);
	return *to ? 0 : ENOMEM;
}
void free(void *b)
{
	table_drop(b);
	__libc_free(b);
}
}
#endif

/* ---- cases ---- */

static char said[1 << 20];
static size_t said_length;

NOIPA static void say_case(const char *name, size_t size, const char *verdict)
{
	said_length += (size_t)snprintf(said + said_length, sizeof(said) - said_length, "case %s %zu %s\n", name, size, verdict);
}

static size_t next_size = 1000;

/* take allocates the next case's block. */
NOIPA static void *take(const char *name, const char *verdict)
{
	size_t size = next_size += 8;
	say_case(name, size, verdict);
	void *b = malloc(size);
	memset(b, 0, size);
	return b;
}

#define PTR(block, offset) (*(void *volatile *)((char *)(block) + (offset)))

static void *volatile global = NULL;
static void *volatile initialised = (void *)&global;
static void *volatile array[300];
static __thread void *volatile thread_local_slot;
static void *volatile interior, *volatile offset_head, *volatile cow_string, *volatile length_first;
static uintptr_t volatile tagged_low, tagged_high, hidden, xor_head;
static char packed[64];
static void *volatile kept_tree, *volatile kept_large, *volatile kept_aligned, *volatile failed_kept;
static void *volatile *mapped, *volatile *shared;
static pthread_key_t keys[40];

NOIPA static void hold(void)
{
	global = take("global", "reachable");
	initialised = take("data", "reachable");
	array[150] = take("array_element", "reachable");
	thread_local_slot = take("tls_static", "reachable");
	for (int i = 0; i < 40; i++)
		pthread_key_create(&keys[i], NULL);
	pthread_setspecific(keys[3], take("pthread_specific", "reachable"));
	pthread_setspecific(keys[39], take("pthread_specific_second_level", "reachable"));
	mapped = (void *volatile *)mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mapped[7] = take("mmapped_memory", "reachable");
	shared = (void *volatile *)mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	shared[7] = take("shared_with_child", "reachable");
	array[0] = take("chain_kept_1", "reachable");
	PTR(array[0], 16) = take("chain_kept_2", "reachable");
	PTR(PTR(array[0], 16), 24) = take("chain_kept_3", "reachable");
	array[1] = take("cycle_kept_1", "reachable");
	PTR(array[1], 0) = take("cycle_kept_2", "reachable");
	PTR(PTR(array[1], 0), 0) = array[1];
	kept_large = malloc(3 << 20);
	memset((void *)kept_large, 0, 3 << 20);
	say_case("large_kept", 3 << 20, "reachable");
	PTR(kept_large, 2500000) = take("from_far_inside_a_large_block", "reachable");
	void *a;
	if (posix_memalign(&a, 4096, 8192 + 64))
		abort();
	memset(a, 0, 8192 + 64);
	say_case("aligned_kept", 8192 + 64, "reachable");
	kept_aligned = a;
	PTR(kept_aligned, 8192) = take("from_a_tail_on_another_page", "reachable");
	failed_kept = take("realloc_failed_kept", "reachable");
	if (realloc((void *)failed_kept, (size_t)1 << 60))
		abort();
	tagged_low = (uintptr_t)take("tagged_in_low_bits", "reachable") | 3;
}

NOIPA static void hold_doubtfully(void)
{
	interior = (char *)take("interior", "possible") + 128;
	PTR(interior, 8) = take("behind_interior", "possible");
	tagged_high = (uintptr_t)take("tagged_in_high_bits", "possible") | (uintptr_t)0xfff8 << 48;
	void *b = take("unaligned", "possible");
	memcpy(packed + 13, &b, sizeof(b));
	/* An intrusive list whose links are in the middle of its elements. */
	char *first = (char *)take("intrusive_list_1", "possible"), *second = (char *)take("intrusive_list_2", "possible");
	PTR(first, 64) = second + 64;
	offset_head = first + 64;
}

NOIPA static void hold_by_heuristic(void)
{
	/* std::string of the old ABI: length, capacity, references, then text. */
	size_t *cow = (size_t *)take("cow_string", "reachable");
	cow[0] = 5;
	cow[1] = next_size - 25;
	cow_string = cow + 3;
	size_t *sized = (size_t *)take("length_in_front", "reachable");
	sized[0] = next_size - 8;
	length_first = sized + 1;
}

#ifdef NO_TABLE
/*
 * Under Valgrind addresses are small numbers. A word of the dynamic linker's that counts clock ticks (74 to 86 million
 * on a quiet machine) is one of a block in the first MiBs: what is lost comes after these.
 */
static void *volatile low_addresses;
#endif

NOIPA static void lose(void)
{
#ifdef NO_TABLE
	low_addresses = malloc((size_t)512 << 20);
#endif
	PTR(take("lost", "definite"), 0) = NULL;
	void *head = take("chain_1", "definite");
	PTR(head, 0) = take("chain_2", "indirect");
	PTR(PTR(head, 0), 8) = take("chain_3", "indirect");
	void *tree = take("tree_root", "definite");
	PTR(tree, 0) = take("tree_left", "indirect");
	PTR(tree, 8) = take("tree_right", "indirect");
	PTR(PTR(tree, 8), 8) = (char *)take("tree_by_interior", "indirect") + 40;
	PTR(take("points_to_itself", "definite"), 32) = NULL;
	void *self = take("points_to_itself_too", "definite");
	PTR(self, 32) = self;
	hidden = ~(uintptr_t)take("hidden_by_complement", "definite");
	void *again = take("realloc_failed_lost", "definite");
	again = realloc(again, (size_t)1 << 60);
	void *large = malloc(2 << 20);
	memset(large, 0, 2 << 20);
	say_case("large_lost", 2 << 20, "definite");
	PTR(large, 1500000) = take("from_far_inside_a_large_lost_block", "indirect");
	large = NULL;
	void *a;
	if (posix_memalign(&a, 256, 4096 + 40))
		abort();
	memset(a, 0, 4096 + 40);
	say_case("aligned_lost", 4096 + 40, "definite");
	array[20] = (char *)take("past_its_end", "definite") + next_size;
	array[21] = (char *)take("before_its_start", "definite") - 8;
}

/* Two circles. Of each, the block with the lowest address is definite. */
NOIPA static void lose_circles(void)
{
	void *block[5];
	for (int i = 0; i < 5; i++)
		block[i] = malloc(next_size += 8);
	size_t first = next_size - 32;
	for (int i = 0; i < 5; i++)
		memset(block[i], 0, first + 8 * (size_t)i);
	int low2 = block[0] < block[1] ? 0 : 1;
	int low3 = 2;
	for (int i = 3; i < 5; i++)
		if (block[i] < block[low3])
			low3 = i;
	for (int i = 0; i < 5; i++) {
		PTR(block[i], 8) = i < 2 ? block[1 - i] : block[2 + (i - 1) % 3];
		say_case(i < 2 ? "circle_of_2" : "circle_of_3", first + 8 * (size_t)i, i == low2 || i == low3 ? "definite" : "indirect");
	}
	PTR(block[3], 64) = take("behind_a_circle", "indirect");
}

/* Each link is the exclusive or of both neighbours. */
NOIPA static void xor_list(void)
{
	void *b[3] = {take("xor_list_1", "reachable"), take("xor_list_2", "definite"), take("xor_list_3", "definite")};
	*(uintptr_t *)b[0] = (uintptr_t)b[1] ^ 0x5a5a5a5a5a5a5a5a;
	*(uintptr_t *)b[1] = (uintptr_t)b[0] ^ (uintptr_t)b[2];
	*(uintptr_t *)b[2] = (uintptr_t)b[1] ^ 0x5a5a5a5a5a5a5a5a;
	xor_head = (uintptr_t)b[0];
}

static void *volatile cache[64], *volatile arena_chunk, *volatile arena_object, *volatile only_object;
static void *volatile pool_slab, *volatile pool_next, *volatile only_next, *volatile free_list;

/* slots makes a block a pool of slots of 64 bytes that are all free, each with a link to the next. */
NOIPA static void slots(void *slab)
{
	for (int at = 64; at + 64 < 960; at += 64)
		PTR(slab, at) = (char *)slab + at + 64;
}

/* What programs keep on purpose, and what they lose of it. */
NOIPA static void patterns(void)
{
	for (int i = 0; i < 30; i++)
		cache[2 * i] = take("cache_entry", "reachable");
	arena_chunk = take("arena_chunk", "reachable");
	arena_object = (char *)arena_chunk + 192;
	PTR(arena_object, 0) = take("held_by_an_object_of_an_arena", "reachable");
	only_object = (char *)take("arena_with_only_an_object_held", "possible") + 192;
	void *lost = take("arena_lost", "definite");
	PTR(lost, 192) = take("held_by_an_object_of_a_lost_arena", "indirect");
	pool_slab = take("pool_slab", "reachable");
	slots((void *)pool_slab);
	pool_next = (char *)pool_slab + 64;
	void *slab = take("pool_with_only_its_free_slots_held", "possible");
	slots(slab);
	only_next = (char *)slab + 64;
	free_list = take("free_list_1", "reachable");
	PTR(free_list, 0) = take("free_list_2", "reachable");
	PTR(PTR(free_list, 0), 0) = take("free_list_3", "reachable");
}

/* What is left where a freed block was is no pointer. */
NOIPA static void stale_in_freed(void)
{
	void *holder = malloc(900);
	memset(holder, 0, 900);
	PTR(holder, 400) = take("only_from_a_freed_block", "definite");
	free(holder);
}

/* stale_on_stack takes an inverted address. */
NOIPA static void stale_on_stack(uintptr_t stale)
{
	volatile uintptr_t room[4096];
	room[10] = ~stale; /* far below what is called later */
	(void)room[10];
}

/* scrub overwrites what calls left on the stack near its top, and in registers. */
NOIPA static void scrub(void)
{
	volatile char room[2048];
	memset((void *)room, 0, sizeof(room));
	for (size_t i = 0; i < sizeof(room); i++)
		(void)room[i];
#if defined(__x86_64__)
	__asm__ volatile("xor %%ebx,%%ebx\n xor %%r12d,%%r12d\n xor %%r13d,%%r13d\n xor %%r14d,%%r14d\n xor %%r15d,%%r15d\n"
			 "xor %%eax,%%eax\n xor %%ecx,%%ecx\n xor %%edx,%%edx\n xor %%esi,%%esi\n xor %%edi,%%edi\n"
			 "xor %%r8d,%%r8d\n xor %%r9d,%%r9d\n xor %%r10d,%%r10d\n xor %%r11d,%%r11d\n"
			 "pxor %%xmm0,%%xmm0\n pxor %%xmm1,%%xmm1\n pxor %%xmm2,%%xmm2\n pxor %%xmm3,%%xmm3\n"
			 "pxor %%xmm4,%%xmm4\n pxor %%xmm5,%%xmm5\n pxor %%xmm6,%%xmm6\n pxor %%xmm7,%%xmm7\n"
			 "pxor %%xmm8,%%xmm8\n pxor %%xmm9,%%xmm9\n pxor %%xmm10,%%xmm10\n pxor %%xmm11,%%xmm11\n"
			 "pxor %%xmm12,%%xmm12\n pxor %%xmm13,%%xmm13\n pxor %%xmm14,%%xmm14\n pxor %%xmm15,%%xmm15\n"
			 ::: "rbx", "r12", "r13", "r14", "r15", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",
			 "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
			 "xmm12", "xmm13", "xmm14", "xmm15");
#endif
}

/* ---- threads and contexts ---- */

static volatile int threads_up;

NOIPA static void *on_stack(void *)
{
	void *volatile slot = take("thread_stack", "reachable");
	thread_local_slot = take("thread_tls_static", "reachable");
	void *lib = dlopen(getenv("LEAK_TLS") ? getenv("LEAK_TLS") : "libleak_tls.so", RTLD_NOW);
	void **(*tls)(void) = lib ? (void **(*)(void))dlsym(lib, "leak_tls_slot") : NULL;
	if (!tls) {
		fprintf(stderr, "leak_corpus: %s\n", dlerror());
		_exit(3);
	}
	*tls() = take("thread_tls_dynamic", "reachable");
	stale_on_stack(~(uintptr_t)take("only_from_a_dead_frame_of_a_thread", "definite"));
	scrub();
	__atomic_add_fetch(&threads_up, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
	return slot;
}

NOIPA static void *in_register(void *)
{
#if defined(__x86_64__)
	void *b = take("register", "reachable");
	scrub();
	__asm__ volatile("mov %0, %%r12\n movq $0, %0\n xor %%ebx,%%ebx\n xor %%ebp,%%ebp\n xor %%r13d,%%r13d\n xor %%r14d,%%r14d\n"
			 "xor %%r15d,%%r15d\n xor %%edi,%%edi\n xor %%esi,%%esi\n xor %%edx,%%edx\n"
			 "lock incl %1\n 1: mov $34, %%eax\n syscall\n jmp 1b"
			 : "+m"(b), "+m"(threads_up)
			 :
			 : "rax", "rcx", "rdx", "rsi", "rdi", "r11", "r12", "r13", "r14", "r15", "rbx", "memory");
#endif
	return NULL;
}

static ucontext_t context_main, context_other;

NOIPA static void on_context(void)
{
	void *volatile slot = take("swapcontext_stack", "reachable");
	swapcontext(&context_other, &context_main);
	PTR(slot, 0) = NULL;
}

NOIPA static void start_context(void)
{
	getcontext(&context_other);
	size_t size = 64 << 10;
	context_other.uc_stack.ss_sp = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	context_other.uc_stack.ss_size = size;
	context_other.uc_link = &context_main;
	makecontext(&context_other, on_context, 0);
	swapcontext(&context_main, &context_other);
}

static void start_threads(void)
{
	pthread_t t;
	pthread_create(&t, NULL, on_stack, NULL);
	while (threads_up < 1)
		sched_yield();
#if defined(__x86_64__)
	pthread_create(&t, NULL, in_register, NULL);
	while (threads_up < 2)
		sched_yield();
#endif
}

/* ---- C++ ---- */

template <int N> struct Sized {
	std::array<char, 5000 + 64 * N> room{};
};

struct Node {
	std::shared_ptr<Node> other;
	char room[3000] = {};
};

struct Lost {
	std::vector<char> inner = std::vector<char>(4203);
	char room[5600] = {};
};

struct One {
	virtual ~One() {}
	char one[3400] = {};
};
struct Two {
	virtual ~Two() {}
	char two[100] = {};
};
struct Both : One, Two {};

struct Destroyed {
	~Destroyed() { room[0] = 1; }
	char room[97];
};

static std::vector<char> *volatile vector_kept;
static std::string *volatile string_kept;
static std::map<int, Sized<0>> *volatile map_kept;
static std::list<Sized<1>> *volatile list_kept;
static std::unordered_map<int, Sized<2>> *volatile table_kept;
static std::unique_ptr<Sized<3>> *volatile unique_kept;
static std::shared_ptr<Sized<4>> *volatile shared_kept;
static std::function<int()> *volatile function_kept;
static Two *volatile second_base;
static Destroyed *volatile cookie;

NOIPA static void hold_cxx(void)
{
	vector_kept = new std::vector<char>(4001);
	say_case("std::vector", 4001, "reachable");
	string_kept = new std::string(4100, 'x');
	say_case("std::string", 4101, "reachable");
	map_kept = new std::map<int, Sized<0>>;
	(*map_kept)[1];
	say_case("std::map", 32 + 8 + 5000 - 4 + 4, "reachable");
	list_kept = new std::list<Sized<1>>(1);
	say_case("std::list", 16 + 5064, "reachable");
	table_kept = new std::unordered_map<int, Sized<2>>;
	(*table_kept)[1];
	say_case("std::unordered_map", 8 + 4 + 5128 + 4, "reachable");
	unique_kept = new std::unique_ptr<Sized<3>>(new Sized<3>);
	say_case("std::unique_ptr", sizeof(Sized<3>), "reachable");
	/* The control block, and in it the object, to which a pointer alone would be interior. */
	shared_kept = new std::shared_ptr<Sized<4>>(std::make_shared<Sized<4>>());
	say_case("std::shared_ptr", 16 + sizeof(Sized<4>), "reachable");
	Sized<6> captured;
	function_kept = new std::function<int()>([captured] { return captured.room[0]; });
	say_case("std::function", sizeof(Sized<6>), "reachable");
	second_base = new Both;
	say_case("second_base", sizeof(Both), "reachable");
	cookie = new Destroyed[63];
	say_case("new_array_with_destructor", 8 + 63 * 97, "reachable");
}

NOIPA static void lose_cxx(void)
{
	new Lost;
	say_case("lost_with_vector", sizeof(Lost), "definite");
	say_case("vector_lost", 4203, "indirect");
	new Sized<8>;
	say_case("object_lost", sizeof(Sized<8>), "definite");
	new Destroyed[67];
	say_case("array_lost", 8 + 67 * 97, "definite");
	{
		/* make_shared: each block holds a pointer into the other. */
		auto a = std::make_shared<Node>(), b = std::make_shared<Node>();
		a->other = b;
		b->other = a;
	}
	say_case("shared_ptr_cycle", 16 + sizeof(Node), "one definite, one indirect");
}

int main(int argc, char **argv)
{
	char c;
	if (argc > 1 && !strcmp(argv[1], "attach") && read(0, &c, 1) != 1)
		return 4;
	void *volatile local = take("stack", "reachable");
	hold();
	hold_doubtfully();
	hold_by_heuristic();
	lose();
	lose_circles();
	xor_list();
	patterns();
	stale_in_freed();
	uintptr_t volatile stale = ~(uintptr_t)take("only_from_a_dead_stack_frame", "definite");
	start_context();
	start_threads();
	hold_cxx();
	lose_cxx();
	pid_t child = fork();
	if (child == 0) {
		shared[8] = NULL;
		_exit(0);
	}
	waitpid(child, NULL, 0);
#ifndef NO_TABLE
	for (size_t i = 0; i < TABLE; i++)
		if (table_key[i] > 1)
			said_length += (size_t)snprintf(said + said_length, sizeof(said) - said_length, "block %#zx %zu\n",
							(size_t)~table_key[i], table_size[i]);
#endif
	for (size_t at = 0; at < said_length;) {
		ssize_t n = write(1, said + at, said_length - at);
		if (n <= 0)
			_exit(3);
		at += (size_t)n;
	}
	memset(said, 0, sizeof(said));
	stale_on_stack(stale);
	scrub();
	if (write(1, "ready\n", 6) != 6)
		_exit(3);
	while (argc < 2 && read(0, &c, 1) > 0)
		;
	PTR(local, 0) = NULL;
#ifdef NO_TABLE
	exit(0);
#endif
	_exit(0);
}
