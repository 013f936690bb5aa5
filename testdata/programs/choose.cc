/*
 * Loses one block for each letter of its argument, each of a size of its own,
 * at a site of its own kind: choose cnia
 */
#include <stdlib.h>
#include <string.h>

#define NOIPA __attribute__((noipa))

extern "C" NOIPA void *lose_in_c(void) { return malloc(101); }

namespace shop {
struct Widget {
	static NOIPA char *make(int n);
	template <typename T> static NOIPA T *many(int n);
};
char *Widget::make(int n) { return new char[n]; }
template <typename T> T *Widget::many(int n) { return (T *)calloc(n, sizeof(T)); }
}

static inline __attribute__((always_inline)) void *tucked_away(void) { return malloc(303); }
NOIPA void *lose_inlined(void) { return tucked_away(); }

NOIPA void *aligned(void)
{
	void *p = NULL;
	return posix_memalign(&p, 64, 505) ? NULL : p;
}

/* Every pointer is written to, and kept nowhere. */
static NOIPA void lose(char letter)
{
	void *p = letter == 'c' ? lose_in_c() : letter == 'n' ? shop::Widget::make(202) :
		letter == 'i' ? lose_inlined() : letter == 'm' ? shop::Widget::many<char>(404) : aligned();
	memset(p, 1, 8);
}

/* Takes pointers off the stack and out of registers. */
static NOIPA int wash(int depth)
{
	volatile char room[4096];
	memset((void *)room, 0, sizeof room);
	return depth == 0 ? room[7] : wash(depth - 1) + room[9];
}

int main(int argc, char **argv)
{
	for (const char *c = argc > 1 ? argv[1] : ""; *c; c++)
		lose(*c);
	return wash(8);
}
