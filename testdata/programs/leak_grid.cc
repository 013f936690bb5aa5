/*
 * One block lost in each process: by each way to allocate, at the end of calls of several depths with
 * frames of several sizes. Whatever the program, the allocator or whoever looks on has left on the stack lies
 * at another distance from the frames that come later in each cell of this grid.
 *
 *   leak_grid return|exit [STEP]
 *
 * says "lost PID SIZE" for each child that it makes, one a cell, or one for each cell in STEP. No two have the same SIZE. Children end by returning from main, or by exit
 * below a frame that is as large as those that are gone.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#define NOIPA __attribute__((noipa, used))

static void *volatile sink;

struct node {
	node *next;
	char name[1];
};

NOIPA static void by_malloc(size_t n) { sink = malloc(n); }
NOIPA static void by_calloc(size_t n) { sink = calloc(1, n); }
NOIPA static void by_realloc(size_t n) { sink = realloc(malloc(10), n); }
NOIPA static void by_realloc_of_null(size_t n) { sink = realloc(nullptr, n); }
NOIPA static void by_aligned_alloc(size_t n) { sink = aligned_alloc(64, n); }
NOIPA static void by_new(size_t n) { sink = operator new(n); }
NOIPA static void by_array(size_t n) { sink = new char[n]; }
NOIPA static void by_pointer(size_t n)
{
	void *(*volatile allocate)(size_t) = malloc;
	sink = allocate(n);
}

NOIPA static void by_posix_memalign(size_t n)
{
	void *p;
	if (!posix_memalign(&p, 64, n))
		sink = p;
	p = nullptr;
	__asm__ volatile("" : : "r"(&p) : "memory");
}

NOIPA static void by_strdup(size_t n)
{
	static char text[8192];
	memset(text, 'x', n - 1);
	text[n - 1] = 0;
	sink = strdup(text);
}

static void (*const ways[])(size_t) = {by_malloc, by_calloc, by_realloc, by_realloc_of_null, by_aligned_alloc, by_new, by_array, by_pointer, by_posix_memalign, by_strdup};
constexpr int way_count = sizeof(ways) / sizeof(*ways);

/* below calls the way depth frames down, each with room that it does not write to. */
template <int room> NOIPA void below(int depth, void (*way)(size_t), size_t n)
{
	char unused[room];
	__asm__ volatile("" : : "r"(unused) : "memory");
	if (depth > 0)
		below<room>(depth - 1, way, n);
	else
		way(n);
	__asm__ volatile("" : : "r"(unused) : "memory");
}

static void (*const frames[])(int, void (*)(size_t), size_t) = {below<8>, below<40>, below<120>, below<600>, below<5000>};
constexpr int frame_count = sizeof(frames) / sizeof(*frames);
static const int depths[] = {0, 1};
constexpr int depth_count = sizeof(depths) / sizeof(*depths);
constexpr int cell_count = way_count * frame_count * depth_count;

/* aligned_alloc takes multiples of its alignment alone in LeakSanitizer. */
static size_t size_of(int cell) { return 64 * (size_t)(cell + 1); }

static void run(int cell)
{
	frames[cell / way_count % frame_count](depths[cell / way_count / frame_count], ways[cell % way_count], size_of(cell));
	sink = nullptr;
}

NOIPA static void leave(size_t) { exit(0); }

int main(int argc, char **argv)
{
	static char text[64];
	bool calls_exit = argc > 1 && !strcmp(argv[1], "exit");
	int step = argc > 2 ? atoi(argv[2]) : 1;
	for (int cell = 0, children = 1; step > 0 && cell < cell_count; cell += step, children++) {
		pid_t child = fork();
		if (!child) {
			run(cell);
			if (calls_exit)
				leave(0);
			return 0;
		}
		int length = snprintf(text, sizeof(text), "lost %d %zu\n", (int)child, size_of(cell));
		if (child < 0 || write(1, text, length) != length)
			return 1;
		if (children % 8 == 0)
			while (wait(nullptr) > 0)
				;
	}
	while (wait(nullptr) > 0)
		;
	return 0;
}
