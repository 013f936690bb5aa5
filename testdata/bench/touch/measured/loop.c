/* malloc and free in turns, and what a pair took, ns. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(void)
{
	const long pairs = 30000000;
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (long i = 0; i < pairs; i++) {
		char *volatile p = malloc(64 + (i & 255));

		free(p);
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("%f\n", ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / pairs);
	return 0;
}
