// Heavy use of std::map, std::string, std::vector and std::unordered_map. All
// of it goes through an allocator that counts what it asks operator new for,
// so the counts are exact, and all of it stands under one site: total.
// Arguments: rounds (20), keys (2,000). The answer adds "mallinfo_used" where
// glibc gives it: bytes in use by its own account, overhead included.
#include "target.h"

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>
#ifdef __GLIBC__
#include <malloc.h>
#endif

static struct site counted = {"Counting"};

template <class T> struct Counting {
	using value_type = T;
	Counting() = default;
	template <class U> Counting(const Counting<U> &) {}
	T *allocate(size_t n)
	{
		return static_cast<T *>(took(&counted, ::operator new(n * sizeof(T)), n * sizeof(T)));
	}
	void deallocate(T *block, size_t n)
	{
		gone(&counted, n * sizeof(T));
		::operator delete(block);
	}
	template <class U> bool operator==(const Counting<U> &) const { return true; }
	template <class U> bool operator!=(const Counting<U> &) const { return false; }
};

using String = std::basic_string<char, std::char_traits<char>, Counting<char>>;
using Tree = std::map<String, String, std::less<String>, Counting<std::pair<const String, String>>>;
using Strings = std::vector<String, Counting<String>>;

struct StringHash {
	size_t operator()(const String &s) const
	{
		size_t sum = 14695981039346656037ULL;
		for (char c : s)
			sum = (sum ^ (unsigned char)c) * 1099511628211ULL;
		return sum;
	}
};
using Table = std::unordered_map<String, Strings, StringHash, std::equal_to<String>,
				 Counting<std::pair<const String, Strings>>>;

static String name_of(long i, size_t length)
{
	char digits[32];
	snprintf(digits, sizeof(digits), "%ld-", i);
	String s(digits);
	while (s.size() < length)
		s += static_cast<char>('a' + (i + static_cast<long>(s.size())) % 26);
	return s;
}

NOIPA void fill_tree(Tree &tree, long keys, long round)
{
	for (long i = 0; i < keys; i++)
		tree[name_of(i, 10 + i % 50)] = name_of(i * round, 5 + (i + round) % 90);
}

NOIPA void prune_tree(Tree &tree, long keys, long round)
{
	for (long i = round % 3; i < keys; i += 3)
		tree.erase(name_of(i, 10 + i % 50));
}

NOIPA void fill_table(Table &table, const Tree &tree, long round)
{
	for (const auto &entry : tree) {
		Strings &values = table[entry.second.substr(0, 6)];
		if (static_cast<long>(values.size()) <= round)
			values.push_back(entry.first);
	}
}

int main(int argc, char **argv)
{
	static struct site *sites[] = {&counted};
	long rounds = target_argument(argc, argv, 0, 20), keys = target_argument(argc, argv, 1, 2000);
	target_begin(argc, argv);
	// Never destroyed: what the containers hold stays live.
	alignas(Tree) static char tree_room[sizeof(Tree)];
	alignas(Table) static char table_room[sizeof(Table)];
	Tree &tree = *new (tree_room) Tree;
	Table &table = *new (table_room) Table;
	for (long round = 0; round < rounds; round++) {
		fill_tree(tree, keys, round);
		fill_table(table, tree, round);
		prune_tree(tree, keys, round);
	}
	target_answer("cxx_containers", 1, sites, COUNT_OF(sites));
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
	struct mallinfo2 info = mallinfo2();
	say(",\"mallinfo_used\":%llu", (unsigned long long)(info.uordblks + info.hblkhd));
#endif
	target_end();
	return 0;
}
