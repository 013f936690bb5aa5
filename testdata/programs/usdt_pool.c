/*
 * A pool that tells tracers of its blocks by USDT probes, with their arguments
 * in all kinds of places, some behind a semaphore, and as a sample of its
 * blocks with what each stands for. The notes are written as sys/sdt.h does
 * (https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation), whose
 * package is not needed so.
 *
 * A block's site is the function that has the probe. The answer has in
 * addition: "plain", blocks of malloc's; "weighed", the site "sampled", with the
 * bytes and blocks that the sample stands for; "switched_off", calls that
 * found the semaphore 0. In attach mode the exit code says whether a
 * semaphore is still raised at the end.
 */
#include "target.h"

/* A probe whose arguments stand in the note as the text says. */
#define PROBE(name, arguments, semaphore, ...)                                                                  \
	__asm__ volatile("990: nop\n"                                                                           \
			 ".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n"                                \
			 ".4byte 992f-991f, 994f-993f, 3\n991: .asciz \"stapsdt\"\n992: .balign 4\n"            \
			 "993: .8byte 990b, _.stapsdt.base, " semaphore "\n"                                    \
			 ".asciz \"otel_memory\"\n.asciz \"" name "\"\n.asciz \"" arguments "\"\n"             \
			 "994: .balign 4\n.popsection\n"                                                        \
			 ".ifndef _.stapsdt.base\n"                                                             \
			 ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                \
			 ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n"             \
			 ".size _.stapsdt.base, 1\n.popsection\n.endif\n" ::__VA_ARGS__                         \
			 : "memory")

/* Counters that the kernel raises while somebody is attached to the probes that name them. */
__attribute__((section(".probes"), used)) volatile unsigned short pool_alloc_semaphore, pool_free_semaphore;

static char pool[1 << 20];
static char *next = pool;
static uint64_t switched_off;

static struct site register_site = {"in_registers"};
static struct site constant_site = {"constant_size"};
static struct site memory_site = {"in_memory"};
static struct site indexed_site = {"indexed"};
static struct site relative_site = {"relative"};
static struct site narrow_site = {"narrow"};
static struct site switched_site = {"switched"};
static struct site sampled_site = {"sampled"};
static struct site plain_site = {"plain"};

NOIPA void *take(size_t size)
{
	void *block = next;
	next += (size + 15) & ~(size_t)15;
	return block;
}

NOIPA void give_back(void *block)
{
	PROBE("free", "8@%0", "0", "r"(block));
}

NOIPA void *in_registers(size_t size)
{
	void *block = took(&register_site, take(size), size);
	PROBE("alloc", "8@%0 8@%1", "0", "r"(block), "r"(size));
	return block;
}

NOIPA void *constant_size(void)
{
	void *block = took(&constant_site, take(48), 48);
	PROBE("alloc", "8@%0 4@%1", "0", "r"(block), "i"(48));
	return block;
}

struct header {
	uint64_t unused;
	void *block;
	uint32_t size;
	uint32_t other; /* not a part of the size */
};

NOIPA void *in_memory(size_t size)
{
	struct header h = {1, took(&memory_site, take(size), size), (uint32_t)size, 0xffffffff};
	struct header *at = &h;
#ifdef __x86_64__
	PROBE("alloc", "8@8(%0) 4@16(%0)", "0", "r"(at));
#else
	PROBE("alloc", "8@[%0, 8] 4@[%0, 16]", "0", "r"(at));
#endif
	return h.block;
}

NOIPA void *indexed(size_t size, unsigned long i)
{
	uint64_t words[8] = {0};
	words[i] = (uintptr_t)took(&indexed_site, take(size), size);
	words[i + 2] = size;
#ifdef __x86_64__
	PROBE("alloc", "8@(%0,%1,8) 8@16(%0,%1,8)", "0", "r"(words), "r"(i));
#else
	PROBE("alloc", "8@[%0] 8@[%0, 16]", "0", "r"(words + i));
#endif
	return (void *)words[i];
}

volatile uint64_t last_block[2], last_size;

NOIPA void *relative(size_t size)
{
	last_block[1] = (uintptr_t)took(&relative_site, take(size), size);
	last_size = size;
#ifdef __x86_64__
	PROBE("alloc", "8@last_block+8(%%rip) 8@last_size(%%rip)", "0", "i"(0));
#else
	PROBE("alloc", "8@%0 8@%1", "0", "r"(last_block[1]), "r"(last_size));
#endif
	return (void *)last_block[1];
}

/* The size is the lower half of a register, the upper one of which is something else. */
NOIPA void *narrow(uint64_t size)
{
	void *block = took(&narrow_site, take((uint32_t)size), (uint32_t)size);
#ifdef __x86_64__
	PROBE("alloc", "8@%0 4@%k1", "0", "r"(block), "r"(size));
#else
	PROBE("alloc", "8@%0 4@%w1", "0", "r"(block), "r"(size));
#endif
	return block;
}

NOIPA void *switched(size_t size)
{
	void *block = take(size);
	if (!pool_alloc_semaphore) {
		switched_off++;
		return block;
	}
	took(&switched_site, block, size);
	PROBE("alloc", "8@%0 8@%1", "pool_alloc_semaphore", "r"(block), "r"(size));
	return block;
}

NOIPA void give_back_switched(void *block)
{
	if (pool_free_semaphore)
		PROBE("free", "8@%0", "pool_free_semaphore", "r"(block));
	else
		switched_off++;
}

/* A block in a sample with a hit every 64 KiB: weight is size / (1 - exp(-size / 64 KiB)) in whole bytes. */
NOIPA void *sampled(size_t size, uint64_t weight)
{
	void *block = took(&sampled_site, take(size), size);
	PROBE("alloc", "8@%0 8@%1 8@%2", "0", "r"(block), "r"(size), "r"(weight));
	return block;
}

NOIPA void plain(void)
{
	for (int i = 0; i < 30; i++) {
		void *block = took(&plain_site, malloc(24), 24);
		if (i % 3 == 0) {
			gone(&plain_site, 24);
			free(block);
		}
	}
}

NOIPA void fill(void)
{
	for (size_t i = 1; i <= 20; i++) {
		void *block = in_registers(i * 10);
		if (i % 2) {
			gone(&register_site, i * 10);
			give_back(block);
		}
	}
	for (int i = 0; i < 7; i++)
		constant_size();
	for (size_t i = 1; i <= 9; i++) {
		void *block = in_memory(i * 3);
		if (i == 4) {
			gone(&memory_site, 12);
			give_back(block);
		}
	}
	for (size_t i = 0; i < 6; i++)
		indexed(100 + i, i);
	for (size_t i = 0; i < 5; i++) {
		void *block = relative(33);
		gone(&relative_site, 33);
		give_back(block);
	}
	for (uint64_t i = 1; i <= 4; i++)
		narrow(0xdead00000000 | i * 7);
	give_back(NULL);
}

int main(int argc, char **argv)
{
	uint64_t weight_live = 0, weight_all = 0;
	double blocks_all = 0;

	target_begin(argc, argv);
	fill();
	for (size_t i = 0; i < 10; i++) {
		void *block = switched(64);
		if (i < 3) {
			gone(&switched_site, 64);
			give_back_switched(block);
		}
	}
	for (size_t i = 0; i < 40; i++) {
		static const size_t sizes[] = {64, 1000, 30000, 65536};
		static const uint64_t weights[] = {65568, 66037, 81676, 103676};
		size_t size = sizes[i % 4];
		uint64_t weight = weights[i % 4];
		void *block = sampled(size, weight);
		weight_all += weight;
		weight_live += weight;
		blocks_all += (double)weight / (double)size;
		if (i < 8) {
			gone(&sampled_site, size);
			weight_live -= weight;
			give_back(block);
		}
	}
	plain();
	static struct site *sites[] = {&register_site, &constant_site, &memory_site, &indexed_site, &relative_site, &narrow_site, &switched_site};
	target_answer("usdt_pool", 1, sites, COUNT_OF(sites));
	say(",\"plain\":{");
	say_counts(&plain_site);
	say("},\"sampled\":{");
	say_counts(&sampled_site);
	say("},\"weighed\":{\"alloc_bytes\":%llu,\"live_bytes\":%llu,\"alloc\":%llu},\"switched_off\":%llu", (unsigned long long)weight_all,
	    (unsigned long long)weight_live, (unsigned long long)(blocks_all + 0.5), (unsigned long long)switched_off);
	target_end();
	return target_attach && (pool_alloc_semaphore || pool_free_semaphore);
}
