/*
 * Counts the malloc family's calls from outside, to check what the test
 * programs say of themselves: LD_PRELOAD=libcount_calls.so PROGRAM run.
 * At exit it writes one line for each kind of caller to the file
 * $COUNT_CALLS_OUT (or stderr):
 *
 *   main alloc=… realloc=… realloc_fresh=… realloc_freed=… failed=… realloc_failed=…
 *        free=… free_null=… alloc_bytes=… realloc_bytes=… [each on the same line]
 *   cxx …     calls from libstdc++ (operator new, exceptions)
 *   other …   everything else: libc itself, ld.so
 *
 * "main" is the program's own image, told apart by the return address.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAIN, CXX, OTHER, CALLERS };

struct counts {
	atomic_ulong alloc, realloc, realloc_fresh, realloc_freed, failed, realloc_failed;
	atomic_ulong free, free_null, alloc_bytes, realloc_bytes;
};

static struct counts counts[CALLERS];
static struct range {
	uintptr_t from, to;
} main_image, cxx_image;

/* What dlsym allocates before the real functions are known. */
static char early[8192];
static size_t early_used;

static int is_early(const void *block)
{
	return (const char *)block >= early && (const char *)block < early + sizeof(early);
}

static void *real(const char *name)
{
	void *function = dlsym(RTLD_NEXT, name);
	if (!function)
		abort();
	return function;
}

#define REAL(result, name, ...)                                       \
	static result (*real_##name)(__VA_ARGS__);                    \
	static inline void find_##name(void)                          \
	{                                                             \
		if (!real_##name)                                     \
			real_##name = (result(*)(__VA_ARGS__))real(#name); \
	}

REAL(void *, malloc, size_t)
REAL(void *, calloc, size_t, size_t)
REAL(void *, realloc, void *, size_t)
REAL(void *, reallocarray, void *, size_t, size_t)
REAL(void, free, void *)
REAL(int, posix_memalign, void **, size_t, size_t)
REAL(void *, aligned_alloc, size_t, size_t)
REAL(void *, memalign, size_t, size_t)
REAL(void *, valloc, size_t)
REAL(void *, pvalloc, size_t)

static int note_image(struct dl_phdr_info *info, size_t size, void *first)
{
	(void)size;
	struct range r = {UINTPTR_MAX, 0};
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, to = from + info->dlpi_phdr[i].p_memsz;
		r.from = from < r.from ? from : r.from;
		r.to = to > r.to ? to : r.to;
	}
	if (*(int *)first)
		main_image = r;
	else if (strstr(info->dlpi_name, "libstdc++"))
		cxx_image = r;
	*(int *)first = 0;
	return 0;
}

static struct counts *of(void *caller)
{
	uintptr_t at = (uintptr_t)caller;
	if (!main_image.to) {
		int first = 1;
		dl_iterate_phdr(note_image, &first);
	}
	if (at >= main_image.from && at < main_image.to)
		return &counts[MAIN];
	if (at >= cxx_image.from && at < cxx_image.to)
		return &counts[CXX];
	return &counts[OTHER];
}

static void *allocated(void *caller, void *block, size_t size)
{
	struct counts *c = of(caller);
	if (!block) {
		c->failed++;
		return NULL;
	}
	c->alloc++;
	c->alloc_bytes += size;
	return block;
}

static void *reallocated(void *caller, void *old, void *block, size_t size)
{
	struct counts *c = of(caller);
	if (!block && size) {
		c->failed++;
		c->realloc_failed++;
		return NULL;
	}
	c->realloc++;
	c->realloc_bytes += size;
	c->realloc_fresh += !old;
	c->realloc_freed += !block;
	return block;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t size)
{
	find_malloc();
	return allocated(CALLER, real_malloc(size), size);
}

void *calloc(size_t count, size_t size)
{
	static __thread int finding __attribute__((tls_model("initial-exec")));
	if (!real_calloc) {
		if (finding) {
			size_t at = early_used;
			early_used += (count * size + 15) & ~(size_t)15;
			return early_used <= sizeof(early) ? early + at : NULL;
		}
		finding = 1;
		find_calloc();
		finding = 0;
	}
	return allocated(CALLER, real_calloc(count, size), count * size);
}

void *realloc(void *old, size_t size)
{
	find_realloc();
	return reallocated(CALLER, old, real_realloc(old, size), size);
}

/* A failure by overflow has no size; any but 0 will do. */
void *reallocarray(void *old, size_t count, size_t size)
{
	size_t bytes;
	find_reallocarray();
	if (__builtin_mul_overflow(count, size, &bytes))
		bytes = SIZE_MAX;
	return reallocated(CALLER, old, real_reallocarray(old, count, size), bytes);
}

void free(void *block)
{
	find_free();
	if (is_early(block))
		return;
	struct counts *c = of(CALLER);
	if (block)
		c->free++;
	else
		c->free_null++;
	real_free(block);
}

int posix_memalign(void **out, size_t align, size_t size)
{
	find_posix_memalign();
	int failed = real_posix_memalign(out, align, size);
	allocated(CALLER, failed ? NULL : *out, size);
	return failed;
}

void *aligned_alloc(size_t align, size_t size)
{
	find_aligned_alloc();
	return allocated(CALLER, real_aligned_alloc(align, size), size);
}

void *memalign(size_t align, size_t size)
{
	find_memalign();
	return allocated(CALLER, real_memalign(align, size), size);
}

void *valloc(size_t size)
{
	find_valloc();
	return allocated(CALLER, real_valloc(size), size);
}

void *pvalloc(size_t size)
{
	find_pvalloc();
	return allocated(CALLER, real_pvalloc(size), size);
}

static void report(void) __attribute__((destructor));

static void report(void)
{
	static const char *const names[CALLERS] = {"main", "cxx", "other"};
	const char *path = getenv("COUNT_CALLS_OUT");
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644) : STDERR_FILENO;
	for (int i = 0; i < CALLERS; i++) {
		struct counts *c = &counts[i];
		dprintf(fd,
			"%s alloc=%lu realloc=%lu realloc_fresh=%lu realloc_freed=%lu failed=%lu realloc_failed=%lu "
			"free=%lu free_null=%lu alloc_bytes=%lu realloc_bytes=%lu\n",
			names[i], c->alloc, c->realloc, c->realloc_fresh, c->realloc_freed, c->failed, c->realloc_failed,
			c->free, c->free_null, c->alloc_bytes, c->realloc_bytes);
	}
}
