/* A library that the program stacks loads. */
__attribute__((noinline)) static int inner(int (*back)(int), int n)
{
	volatile char frame[64];

	frame[n & 63] = 1;
	return back(n) + frame[n & 63];
}

int call_back(int (*back)(int), int n) { return inner(back, n) + 1; }
