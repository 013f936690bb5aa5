/* Stacks of C++ code: exceptions, destructors, templates, lambdas. */
#include "stacks.h"
#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

struct guard {
	int n;
	NOIPA explicit guard(int n) : n(n) { allocate(n); }
	NOIPA ~guard() { allocate(n); }
};

NOIPA static int thrower(int n)
{
	guard g(n);
	if (n == 0)
		throw std::runtime_error("bottom");
	return thrower(n - 1) + g.n;
}

NOIPA static void catcher()
{
	guard g(1);
	try {
		thrower(4);
	} catch (const std::exception &e) {
		allocate(1);
		try {
			guard h(2);
			throw;
		} catch (...) {
			allocate(2);
		}
	}
}

struct base {
	virtual ~base() {}
	virtual int visit(int n) = 0;
};
struct derived : base {
	NOIPA int visit(int n) override { return allocate(n); }
};

template <typename F> NOIPA static int apply(F &&f, int n) { return f(n) + 1; }

static void run()
{
	case_name = "exception";
	catcher();
	case_name = "virtual";
	derived d;
	base *b = &d;
	b->visit(1);
	case_name = "lambda";
	std::function<int(int)> f = [&](int n) { return allocate(n); };
	apply(f, 2);
	apply([&](int n) { return allocate(n) + f(n); }, 3);
	case_name = "algorithm";
	std::vector<int> v{5, 3, 4, 1, 2};
	std::sort(v.begin(), v.end(), [](int a, int b) { return allocate(a) < b; });
	std::stable_sort(v.begin(), v.end(), [](int a, int b) { allocate(b); return a < b; });
}

int main() { return stacks_main(run); }
