/*
 * An allocator over a static arena that can be left in the middle of a call,
 * by longjmp or by the end of its thread. Leaving glibc's malloc this way
 * would be undefined; here it is not, as malloc holds nothing when it leaves.
 * calloc, realloc and the aligned functions enter the exported malloc, so that
 * a call can be left from two calls deep.
 */
#define _GNU_SOURCE
#include "escape.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stddef.h>
#include <string.h>

#define ARENA  (64UL << 20)
#define HEADER 16

static _Alignas(64) char arena[ARENA];
static atomic_size_t used;
static __thread jmp_buf *jump_to __attribute__((tls_model("initial-exec")));
static __thread int exit_next __attribute__((tls_model("initial-exec")));

__attribute__((visibility("default"))) void *malloc(size_t size);

void escape_jump(jmp_buf *buffer)
{
	jump_to = buffer;
}

void escape_exit(void)
{
	exit_next = 1;
}

static void leave_if_asked(void)
{
	if (jump_to) {
		jmp_buf *to = jump_to;
		jump_to = NULL;
		longjmp(*to, 1);
	}
	if (exit_next) {
		exit_next = 0;
		pthread_exit(NULL);
	}
}

static void *carve(size_t align, size_t size)
{
	if (size > ARENA || align > ARENA)
		goto full;
	size_t room = (size + HEADER + align + 15) & ~(size_t)15;
	size_t at = atomic_fetch_add(&used, room);
	if (at + room > ARENA)
		goto full;
	uintptr_t block = ((uintptr_t)arena + at + HEADER + align - 1) & ~(uintptr_t)(align - 1);
	((size_t *)block)[-1] = size;
	return (void *)block;
full:
	errno = ENOMEM;
	return NULL;
}

void *malloc(size_t size)
{
	leave_if_asked();
	return carve(16, size);
}

/* Memory is never used twice: good for a test of a few megabytes. */
void free(void *block)
{
	(void)block;
}

void *calloc(size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return malloc(bytes); /* the arena is zero and never used twice */
}

void *realloc(void *block, size_t size)
{
	void *fresh = malloc(size);
	if (fresh && block) {
		size_t old = ((size_t *)block)[-1];
		memcpy(fresh, block, old < size ? old : size);
	}
	return fresh;
}

void *memalign(size_t align, size_t size)
{
	leave_if_asked();
	return carve(align < 16 ? 16 : align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
	void *block = memalign(align, size);
	if (!block)
		return ENOMEM;
	*out = block;
	return 0;
}
