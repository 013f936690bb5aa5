/* Maps memory for code as a JIT compiler does, prints its address, and waits
   for the end of its input. */
#include <stdio.h>
#include <sys/mman.h>

int main(void)
{
	void *code = mmap(NULL, 65536, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED)
		return 1;
	printf("%p\n", code);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
