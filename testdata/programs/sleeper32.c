/*
 * A 32-bit process that needs no 32-bit C library: it says "ready PID" and
 * sleeps until it is killed.
 */
static long call(long number, long a, long b, long c)
{
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
	return result;
}

void _start(void)
{
	static char text[] = "ready           \n";
	long pid = call(20, 0, 0, 0);
	int at = 15;
	do
		text[at--] = (char)('0' + pid % 10);
	while ((pid /= 10) > 0);
	/* Close the gap, so that one blank stands between. */
	int from = at + 1, to = 6;
	while (from <= 16)
		text[to++] = text[from++];
	call(4, 1, (long)text, to);
	for (;;)
		call(29, 0, 0, 0);
}
