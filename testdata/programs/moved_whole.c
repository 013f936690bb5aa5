/*
 * Moves all of its code to anonymous memory at the same address, as programs do that want huge
 * pages for it: no page of code is left of its file, which lies before and behind it. Allocates from there.
 */
#include "target.h"
#include <stdio.h>
#include <sys/mman.h>

static struct site moved_site = {"in_moved_code"};

NOIPA void in_moved_code(size_t size)
{
	volatile char room[3000];

	room[0] = 1;
	for (int i = 0; i < 10; i++)
		took(&moved_site, malloc(size + room[0]), size + 1);
}

NOIPA void caller(size_t size)
{
	in_moved_code(size);
	target_sink = &moved_site;
}

/* Finds the mapping that holds this very function. */
static int own_code(unsigned long *start, unsigned long *end)
{
	char line[4352];
	FILE *maps = fopen("/proc/self/maps", "r");
	int found = 0;

	while (maps && !found && fgets(line, sizeof line, maps))
		found = sscanf(line, "%lx-%lx", start, end) == 2 && *start <= (unsigned long)own_code && (unsigned long)own_code < *end;
	if (maps)
		fclose(maps);
	return found;
}

static int move(void)
{
	unsigned long start, end;
	void *copy;

	if (!own_code(&start, &end))
		return 0;
	copy = mmap(NULL, end - start, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED)
		return 0;
	memcpy(copy, (void *)start, end - start);
	return mprotect(copy, end - start, PROT_READ | PROT_EXEC) == 0 &&
	       mremap(copy, end - start, end - start, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)start) == (void *)start;
}

int main(int argc, char **argv)
{
	struct site *sites[] = {&moved_site};

	if (!move())
		return 1;
	target_begin(argc, argv);
	caller(99);
	target_answer("moved_whole", 1, sites, COUNT_OF(sites));
	target_end();
	return 0;
}
