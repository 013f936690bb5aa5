/*
 * Moves some of its code to anonymous memory at the same address, as programs do that want huge
 * pages for it, and allocates from there: through code without frame pointers.
 */
#include "target.h"
#include <sys/mman.h>

#define PAGES (64 << 10) /* of the largest size */

static struct site moved_site = {"in_moved_code"};

NOIPA __attribute__((aligned(PAGES))) void in_moved_code(size_t size)
{
	volatile char room[3000];

	room[0] = 1;
	for (int i = 0; i < 10; i++)
		took(&moved_site, malloc(size + room[0]), size + 1);
}

/* Stands behind what is moved. */
NOIPA __attribute__((aligned(PAGES))) void caller(size_t size)
{
	in_moved_code(size);
	target_sink = &moved_site;
}

static int move(void)
{
	void *code = (void *)in_moved_code, *copy = mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		return 0;
	memcpy(copy, code, PAGES);
	return mprotect(copy, PAGES, PROT_READ | PROT_EXEC) == 0 && mremap(copy, PAGES, PAGES, MREMAP_MAYMOVE | MREMAP_FIXED, code) == code;
}

int main(int argc, char **argv)
{
	struct site *sites[] = {&moved_site};

	if (!move())
		return 1;
	target_begin(argc, argv);
	caller(99);
	target_answer("moved_text", 1, sites, COUNT_OF(sites));
	target_end();
	return 0;
}
