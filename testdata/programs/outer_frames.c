/*
 * Allocates under stacks that differ in outer frames alone: two functions call
 * two others, each through frames of the same size, so that all that differs
 * from one allocation to the next are return addresses further out, or the
 * depth. Arguments: allocations.
 *
 * A site is a pair of functions: "outer_a/middle_x".
 */
#include "target.h"

static struct site sites[2][2] = {
	{{"outer_a/middle_x"}, {"outer_a/middle_y"}},
	{{"outer_b/middle_x"}, {"outer_b/middle_y"}},
};

/* The asm keeps each a real call. */
#define KEEP __asm__ volatile("" ::: "memory")

NOIPA void leaf(struct site *s, long depth)
{
	if (depth > 0)
		leaf(s, depth - 1);
	else
		took(s, malloc(16), 16);
	KEEP;
}

NOIPA void middle_x(struct site *s, long depth)
{
	leaf(s, depth);
	KEEP;
}

NOIPA void middle_y(struct site *s, long depth)
{
	leaf(s, depth);
	KEEP;
}

#define THROUGH(outer, middle, depth) \
	do {                                                        \
		if (middle)                                         \
			middle_y(&sites[outer][middle], depth);     \
		else                                                \
			middle_x(&sites[outer][middle], depth);     \
		KEEP;                                               \
	} while (0)

NOIPA void outer_a(int middle, long depth)
{
	THROUGH(0, middle, depth);
}

NOIPA void outer_b(int middle, long depth)
{
	THROUGH(1, middle, depth);
}

int main(int argc, char **argv)
{
	static struct site *list[] = {&sites[0][0], &sites[0][1], &sites[1][0], &sites[1][1]};
	long count = target_argument(argc, argv, 0, 10000);
	uint64_t random = 88172645463325252ULL;

	target_begin(argc, argv);
	for (long i = 0; i < count; i++) {
		/* Often the same again; xorshift (Marsaglia, 2003) */
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		int outer = random >> 8 & 1, middle = random >> 16 & 1;
		long depth = random >> 24 & 1 ? 20 : (long)(random >> 32 & 31);
		if (outer)
			outer_b(middle, depth);
		else
			outer_a(middle, depth);
	}
	target_answer("outer_frames", 1, list, COUNT_OF(list));
	target_end();
	return 0;
}
