/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arrays of types with a destructor: the compiler puts their number in front,
 * and the pointer that the program keeps is one behind that. What is held and
 * what is lost, the program says as leak_corpus does:
 *
 *   case NAME SIZE reachable|possible|indirect|definite
 *   block ADDRESS SIZE     (in the order of the cases)
 *   ready
 *
 * With an argument, names with commas between, it makes those cases alone, for
 * leak checkers that know blocks by their size. Then it waits for the end of stdin.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOIPA __attribute__((noipa, used))

template <size_t SIZE, size_t ALIGNMENT> struct alignas(ALIGNMENT) Element {
	char bytes[SIZE];
	~Element() { bytes[0] = 1; }
};

enum { CASES = 40 };
static const char *chosen;
static char said[1 << 14];
static size_t said_length, cases;
static uintptr_t blocks[CASES]; /* ~address */
static size_t sizes[CASES];
static void *volatile held[CASES];

NOIPA static bool wanted(const char *name)
{
	size_t n = strlen(name);
	for (const char *at = chosen; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (!strncmp(at, name, n) && (!at[n] || at[n] == ','))
			return true;
	return !chosen;
}

NOIPA static void say(const char *name, void *block, size_t size, const char *verdict)
{
	said_length += (size_t)snprintf(said + said_length, sizeof(said) - said_length, "case %s %zu %s\n", name, size, verdict);
	blocks[cases] = ~(uintptr_t)block;
	sizes[cases++] = size;
}

/* array makes n elements, whose number is known at run time alone. */
template <size_t SIZE, size_t ALIGNMENT> NOIPA static void *array(const char *name, volatile size_t n, const char *verdict)
{
	size_t cookie = ALIGNMENT < 8 ? 8 : ALIGNMENT;
	char *elements = (char *)new Element<SIZE, ALIGNMENT>[n];
	say(name, elements - cookie, cookie + n * sizeof(Element<SIZE, ALIGNMENT>), verdict);
	return elements;
}

template <size_t SIZE, size_t ALIGNMENT> NOIPA static void hold(const char *name, size_t n, const char *verdict)
{
	if (wanted(name)) {
		void *elements = array<SIZE, ALIGNMENT>(name, n, verdict);
		held[cases] = elements;
	}
}

template <size_t SIZE, size_t ALIGNMENT> NOIPA static void lose(const char *name, size_t n)
{
	if (wanted(name))
		array<SIZE, ALIGNMENT>(name, n, "definite");
}

struct Owner {
	size_t room[2];
	void *array;
};

NOIPA static void hold_by_a_lost_object()
{
	if (!wanted("array_of_none_of_a_lost_object"))
		return;
	Owner *owner = new Owner();
	owner->array = array<1, 1>("array_of_none_of_a_lost_object", 0, "indirect");
	say("owner_of_an_array_of_none", owner, sizeof(Owner), "definite");
}

/* What points past the end of a block that holds something points to nothing. */
NOIPA static void hold_the_end()
{
	if (!wanted("held_by_its_end"))
		return;
	size_t *block = (size_t *)malloc(8);
	*block = 5;
	held[CASES - 1] = block + 1;
	say("held_by_its_end", block, 8, "definite");
}

/* As in an allocator that leaves no room between blocks: the address after one is the next. */
static uintptr_t packed[12];

NOIPA static void hold_packed()
{
	if (chosen)
		return;
	say("packed_array_of_none", &packed[0], 8, "possible");
	say("beside_an_array_of_none", &packed[1], 8, "reachable");
	held[CASES - 2] = &packed[1]; /* one is the array, */
	held[CASES - 3] = &packed[1]; /* the other the next block */
	say("packed_lost", &packed[3], 8, "definite");
	say("beside_a_lost_one", &packed[4], 8, "reachable");
	held[CASES - 4] = &packed[4];
	/* Three in a row: each word is the end of one, and the start of the next. */
	say("first_array_of_a_row", &packed[6], 8, "possible");
	say("second_array_of_a_row", &packed[7], 8, "reachable");
	say("third_array_of_a_row", &packed[8], 8, "reachable");
	held[CASES - 5] = &packed[7];
	held[CASES - 6] = &packed[8];
	held[CASES - 7] = &packed[9];
}

/* scrub overwrites what calls left on the stack near its top, and in registers. */
NOIPA static void scrub()
{
	volatile char room[4096];
	memset((void *)room, 0, sizeof(room));
#if defined(__x86_64__)
	__asm__ volatile("xor %%ebx,%%ebx\n xor %%r12d,%%r12d\n xor %%r13d,%%r13d\n xor %%r14d,%%r14d\n xor %%r15d,%%r15d\n"
			 "pxor %%xmm0,%%xmm0\n pxor %%xmm1,%%xmm1\n" ::: "rbx", "r12", "r13", "r14", "r15", "xmm0", "xmm1");
#endif
}

static void put(const char *text, size_t length)
{
	if (write(1, text, length) != (ssize_t)length)
		_exit(3);
}

int main(int argc, char **argv)
{
	char c;
	chosen = argc > 1 ? argv[1] : NULL;
	hold<1, 1>("array_of_none", 0, "reachable");
	hold<1, 1>("array_of_one_byte", 1, "reachable");
	hold<1, 1>("array_of_three_bytes", 3, "reachable");
	hold<3, 1>("array_of_two_of_three_bytes", 2, "reachable");
	hold<8, 8>("array_of_five_words", 5, "reachable");
	hold<16, 16>("aligned_array_of_one", 1, "reachable");
	hold<32, 16>("aligned_array_of_three", 3, "reachable");
	hold<64, 64>("array_of_four_cache_lines", 4, "reachable");
	lose<1, 1>("array_of_none_lost", 0);
	lose<1, 1>("array_of_four_bytes_lost", 4);
	hold<16, 16>("aligned_array_of_none", 0, "possible");
	lose<16, 16>("aligned_array_of_none_lost", 0);
	hold_by_a_lost_object();
	hold_the_end();
	hold_packed();
	put(said, said_length);
	for (size_t i = 0; i < cases; i++) {
		char line[64];
		put(line, (size_t)snprintf(line, sizeof(line), "block %#zx %zu\n", (size_t)~blocks[i], sizes[i]));
	}
	scrub();
	put("ready\n", 6);
	while (read(0, &c, 1) > 0)
		;
	exit(0);
}
