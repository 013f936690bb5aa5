/* Inlined calls in C, a nested function and a cold part. It prints the address
   of plain, the return address of its call of where and the address of malloc,
   then waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline int twice(int x) { return x * 2; }

static inline int four_times(int x)
{
	int y = twice(x);
	if (y > 1000)
		y -= strlen("abc");
	return twice(y);
}

static __attribute__((noinline, cold)) void complain(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

__attribute__((noinline)) void *where(void) { return __builtin_return_address(0); }

__attribute__((noinline)) int nested(int n)
{
	int seen = 0;
	__attribute__((noinline)) int step(int x)
	{
		seen += four_times(x);
		return seen;
	}
	for (int i = 0; i < n; i++)
		step(i);
	return seen;
}

static int compare(const void *a, const void *b)
{
	return four_times(*(const int *)a) - four_times(*(const int *)b);
}

int plain(int x)
{
	if (x < -5)
		complain("x is too small");
	return four_times(x) + 1;
}

int main(int argc, char **argv)
{
	int v[] = { 5, 3, 1, 4 };
	qsort(v, 4, sizeof v[0], compare);
	void *at = where();
	printf("%p %p %p %d %d\n", (void *)plain, at, (void *)malloc, nested(argc), v[0] + plain(argc));
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
