/*
 * What allocators offer beside malloc: -DJEMALLOC, -DMIMALLOC or -DTCMALLOC,
 * linked with that library. Declared here, as their headers come with packages
 * that nothing else needs.
 */
#include "target.h"

static struct site fresh_site = {"fresh"};
static struct site zeroed_site = {"zeroed"};
static struct site aligned_site = {"aligned"};
static struct site counted_site = {"counted"};
static struct site resized_site = {"moved"};
static struct site inplace_site = {"in_place"};

#if defined(JEMALLOC)
#define NAME "interfaces_jemalloc"
void *mallocx(size_t size, int flags);
void *rallocx(void *block, size_t size, int flags);
size_t xallocx(void *block, size_t size, size_t extra, int flags);
void sdallocx(void *block, size_t size, int flags);
void dallocx(void *block, int flags);
#define ZERO 0x40
#define ALIGN64 6
#define FRESH(size) mallocx(size, 0)
#define ZEROED(size) mallocx(size, ZERO)
#define ALIGNED(size) mallocx(size, ALIGN64)
#define COUNTED(n, size) mallocx((n) * (size), ZERO)
#define MOVE(block, size) rallocx(block, size, 0)
#define DROP(block, size) dallocx(block, 0)
#define DROP_SIZED(block, size) sdallocx(block, size, 0)
#elif defined(MIMALLOC)
#define NAME "interfaces_mimalloc"
void *mi_malloc(size_t size);
void *mi_heap_malloc(void *heap, size_t size);
void *mi_heap_get_default(void);
void *mi_zalloc(size_t size);
void *mi_malloc_aligned(size_t size, size_t alignment);
void *mi_mallocn(size_t n, size_t size);
void *mi_realloc(void *block, size_t size);
void *mi_expand(void *block, size_t size);
void mi_free(void *block);
void mi_free_size(void *block, size_t size);
#define FRESH(size) mi_heap_malloc(mi_heap_get_default(), size)
#define ZEROED(size) mi_zalloc(size)
#define ALIGNED(size) mi_malloc_aligned(size, 64)
#define COUNTED(n, size) mi_mallocn(n, size)
#define MOVE(block, size) mi_realloc(block, size)
#define DROP(block, size) mi_free(block)
#define DROP_SIZED(block, size) mi_free_size(block, size)
#else
#define NAME "interfaces_tcmalloc"
void *tc_malloc(size_t size);
void *tc_new(size_t size);
void *tc_memalign(size_t alignment, size_t size);
void *tc_calloc(size_t n, size_t size);
void *tc_realloc(void *block, size_t size);
void tc_free(void *block);
void tc_delete(void *block);
#define FRESH(size) tc_malloc(size)
#define ZEROED(size) tc_new(size)
#define ALIGNED(size) tc_memalign(64, size)
#define COUNTED(n, size) tc_calloc(n, size)
#define MOVE(block, size) tc_realloc(block, size)
#define DROP(block, size) tc_free(block)
#define DROP_SIZED(block, size) tc_delete(block)
#endif

/* 20 blocks each, of 10 to 200 bytes, half of them released, one way or the other. */
#define EACH(site, allocate)                                      \
	for (size_t i = 1; i <= 20; i++) {                        \
		size_t size = i * 10;                             \
		void *block = took(&site, allocate, size);        \
		if (i % 4 == 1) {                                 \
			gone(&site, size);                        \
			DROP(block, size);                        \
		} else if (i % 4 == 3) {                          \
			gone(&site, size);                        \
			DROP_SIZED(block, size);                  \
		}                                                 \
	}

NOIPA void fresh(void) { EACH(fresh_site, FRESH(size)) }
NOIPA void zeroed(void) { EACH(zeroed_site, ZEROED(size)) }
NOIPA void aligned(void) { EACH(aligned_site, ALIGNED(size)) }
NOIPA void counted(void) { EACH(counted_site, COUNTED(i, 10)) }

/* A block that grows from 100 to 12,800 bytes. */
NOIPA void moved(void)
{
	void *block = took(&resized_site, FRESH(100), 100);
	for (size_t size = 100; size < 12800; size *= 2)
		block = resized(&resized_site, &resized_site, size, MOVE(block, size * 2), size * 2);
}

/* Blocks that change their size where they are, or don't. */
NOIPA void in_place(void)
{
#if defined(JEMALLOC)
	void *block = took(&inplace_site, mallocx(20000, 0), 20000);
	size_t size = 20000;
	for (size_t want = 14000; want < 40000; want += 2000) {
		size_t real = xallocx(block, want, 0, 0);
		if (real >= want) {
			resized(&inplace_site, &inplace_site, size, block, want);
			size = want;
		} else {
			inplace_site.failed++;
			inplace_site.realloc_failed++;
		}
	}
#elif defined(MIMALLOC)
	void *block = took(&inplace_site, mi_malloc(2000), 2000);
	resized(&inplace_site, &inplace_site, 2000, mi_expand(block, 1900), 1900);
#endif
}

int main(int argc, char **argv)
{
	static struct site *sites[] = {&fresh_site, &zeroed_site, &aligned_site, &counted_site, &resized_site, &inplace_site};
	target_begin(argc, argv);
	fresh();
	zeroed();
	aligned();
	counted();
	moved();
	in_place();
	target_answer(NAME, 1, sites, COUNT_OF(sites));
	target_end();
	return 0;
}
