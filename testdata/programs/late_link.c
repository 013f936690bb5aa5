/*
 * Keeps more blocks than a tracer copies for a forked child. Its last child, as
 * its only act, allocates one more and has an inherited block point to it: nothing
 * else does, and nothing is lost.
 *
 * Before that it waits now and then for a child that does nothing. A tracer that
 * looks at the ends of programs takes in all that came before each of them, so
 * that it never falls behind so far that it has to sample.
 *
 *   late_link run [BLOCKS]
 */
#include "target.h"

#include <sys/wait.h>

#define BETWEEN (1 << 17) /* blocks: few enough for a tracer's rings */

static void ***kept; /* a block of pointers to blocks */

NOIPA static void *in_parent(void)
{
	void **block = malloc(16);
	block[0] = block[1] = NULL;
	return block;
}

NOIPA static void link_late(void)
{
	void **block = malloc(16);
	block[0] = block[1] = NULL;
	kept[0][0] = block;
}

/* What calls left on the stack is not to hold the block. */
NOIPA static void scrub(void)
{
	volatile char room[4096];
	memset((void *)room, 0, sizeof(room));
	(void)room[17];
}

/* Forks a child, and waits until it has ended as it should. */
static void bear(int late)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		if (late)
			link_late();
		scrub();
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		_exit(1);
}

int main(int argc, char **argv)
{
	long blocks = target_argument(argc, argv, 0, 1 << 20);
	target_begin(argc, argv);
	kept = malloc(sizeof(*kept) * (size_t)blocks);
	for (long i = 0; i < blocks; i++) {
		if (i > 0 && i % BETWEEN == 0)
			bear(0);
		kept[i] = in_parent();
	}
	bear(1);
	return 0;
}
