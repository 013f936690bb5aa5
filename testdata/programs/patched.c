/*
 * Hooks malloc as inline-hooking libraries do, before it is attached to: its first bytes become a jump to a function of
 * ours. Each call must come there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static volatile long hooked;

static void *hook(size_t size)
{
	hooked++;
	return calloc(1, size);
}

#ifdef __x86_64__
static const unsigned char jump[] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *0(%rip) */
#else
static const unsigned char jump[] = {0x50, 0, 0, 0x58, 0, 2, 0x1f, 0xd6}; /* ldr x16, 8; br x16 */
#endif

static void patch(unsigned char *at)
{
	uintptr_t page = (uintptr_t)at & -65536, to = (uintptr_t)hook, end = ((uintptr_t)at + 65536) & -4096;

	while (mprotect((void *)page, end - page, PROT_READ | PROT_WRITE | PROT_EXEC)) /* the mapping may begin later */
		page += 4096;
	memcpy(at, jump, sizeof(jump));
	memcpy(at + sizeof(jump), &to, sizeof(to));
	__builtin___clear_cache((char *)at, (char *)at + 32);
	mprotect((void *)page, end - page, PROT_READ | PROT_EXEC);
}

int main(void)
{
	unsigned char *at = dlsym(RTLD_DEFAULT, "malloc");
	void *(*volatile call)(size_t);

	patch(at);
	puts("ready");
	fflush(stdout);
	getchar();
	hooked = 0;
	call = (void *(*)(size_t))(void *)at;
	for (int i = 0; i < 1000; i++)
		free(call(100));
	printf("hooked %ld\n", hooked);
	return hooked == 1000 ? 12 : 13;
}
