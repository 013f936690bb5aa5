/*
 * A heap of so many MiB, in blocks of 16 to 1,039 bytes, a third of which are freed as it grows: later ones take their
 * places. It then waits for SECONDS.
 */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	uint64_t random = 0x9e3779b97f4a7c15, left = argc > 2 ? strtoull(argv[1], NULL, 10) << 20 : 0;
	void *before = NULL;
	for (uint64_t i = 0; left > 2048; i++) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		uint64_t size = 16 + (random & 1023);
		uint64_t *block = malloc(size);
		*block = i;
		if (i % 3 == 2)
			free(before); /* between two that stay */
		before = block;
		left -= size;
	}
	sleep(argc > 2 ? (unsigned)atoi(argv[2]) : 0);
	return 0;
}
