// Leaves allocating functions by longjmp and by exceptions, and lets operator
// new fail. The answer adds "throws": each allocates and frees one exception
// object inside libstdc++, which is not in the counts. (So may each failed
// nothrow new, in the versions of libstdc++ that throw and catch in there.)
#include "target.h"

#include <csetjmp>
#include <new>
#include <stdexcept>

static struct site jumped_site = {"allocate_then_jump"};
static struct site thrown_site = {"allocate_then_throw"};
static struct site raii_site = {"allocate_in_holder"};
static struct site huge_site = {"new_of_too_much"};
static struct site quiet_site = {"new_nothrow_of_too_much"};
static void *kept[4096];
static unsigned kept_count;
static unsigned long throws;
static jmp_buf landing;

// 40 bytes, live after the jump.
NOIPA void allocate_then_jump(int depth)
{
	if (depth > 0) {
		allocate_then_jump(depth - 1);
		asm volatile("" ::: "memory");
		return;
	}
	kept[kept_count++] = took(&jumped_site, malloc(40), 40);
	longjmp(landing, 1);
}

// 60 bytes by new, live after the throw.
NOIPA void allocate_then_throw(int depth)
{
	if (depth > 0) {
		allocate_then_throw(depth - 1);
		asm volatile("" ::: "memory");
		return;
	}
	kept[kept_count++] = took(&thrown_site, ::operator new(60), 60);
	throw 7;
}

// A block that unwinding frees.
struct Holder {
	void *block;
	NOIPA explicit Holder(void *given) : block(given) {}
	NOIPA ~Holder()
	{
		gone(&raii_site, 80);
		::operator delete(block);
	}
};

NOIPA void *allocate_in_holder()
{
	return took(&raii_site, ::operator new(80), 80);
}

NOIPA void holder_then_throw()
{
	Holder holder(allocate_in_holder());
	throw 8;
}

NOIPA bool new_of_too_much(size_t size)
{
	try {
		target_sink = ::operator new(size);
	} catch (const std::bad_alloc &) {
		huge_site.failed++;
		return true;
	}
	return false;
}

NOIPA bool new_nothrow_of_too_much(size_t size)
{
	target_sink = ::operator new(size, std::nothrow);
	if (target_sink)
		return false;
	quiet_site.failed++;
	return true;
}

int main(int argc, char **argv)
{
	static struct site *sites[] = {&jumped_site, &thrown_site, &raii_site, &huge_site, &quiet_site};
	target_begin(argc, argv);
	for (volatile int i = 0; i < 1000; i = i + 1)
		if (setjmp(landing) == 0)
			allocate_then_jump(5);
	for (int i = 0; i < 1000; i++) {
		try {
			allocate_then_throw(5);
		} catch (int) {
			throws++;
		}
	}
	for (int i = 0; i < 500; i++) {
		try {
			holder_then_throw();
		} catch (int) {
			throws++;
		}
	}
	volatile size_t huge = PTRDIFF_MAX / 2;
	for (int i = 0; i < 10; i++) {
		throws += new_of_too_much(huge);
		if (!new_nothrow_of_too_much(huge))
			return 1;
	}
	target_answer("longjmp_throw", 1, sites, COUNT_OF(sites));
	say(",\"throws\":%lu", throws);
	target_end();
	return 0;
}
