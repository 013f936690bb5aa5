/* Stacks down to _start of a program with musl, whose own code has no call frame information. */
#define SHADOW_STACK
#include "stacks.h"

NOIPA static int recurse(int depth)
{
	volatile char frame[depth * 24 + 8];
	int result;

	ENTER();
	frame[0] = 1;
	result = depth ? recurse(depth - 1) + frame[0] : allocate(frame[0]);
	LEAVE();
	return result;
}

NOIPA static int many_registers(int a, int b, int c, int d, int e, int f)
{
	ENTER();
	for (int i = 0; i < 3; i++) {
		a += allocate(b);
		b ^= c + d;
		d += e * f + a;
	}
	LEAVE();
	return a + b + c + d + e + f;
}

NOIPA static int cases(void)
{
	int result;

	ENTER();
	sink = malloc(1);
	free(sink); /* links it: a static program without free has no allocator to trace */
	case_name = "plain";
	result = allocate(1);
	case_name = "recursion";
	result += recurse(20);
	case_name = "registers";
	result += many_registers(1, 2, 3, 4, 5, 6);
	LEAVE();
	return result;
}

static void run(void)
{
	ENTER();
	sink = (void *)(long)cases();
	LEAVE();
}

int main(void)
{
	int result;

	ENTER();
	result = stacks_main(run);
	LEAVE();
	return result;
}
