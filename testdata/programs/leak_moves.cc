// Two threads that move pointers about all the time, and lose nothing: lists
// are spliced, slots swapped, tables rehashed, some blocks replaced. See
// target.h for the modes; it runs until it is killed.
#include "target.h"

#include <list>
#include <memory>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

using Block = std::unique_ptr<char[]>;

static void move_about(unsigned seed)
{
	enum : unsigned { NODES = 50000, SLOTS = 20000 };
	std::mt19937 any(seed);
	std::list<Block> list;
	std::unordered_map<unsigned, std::list<Block>::iterator> nodes;
	std::vector<Block> slots(SLOTS);
	for (unsigned k = 0; k < NODES; k++) {
		list.emplace_front(new char[40]);
		nodes[k] = list.begin();
	}
	for (Block &s : slots)
		s.reset(new char[100]);
	for (unsigned long n = 0;; n++) {
		list.splice(list.begin(), list, nodes[any() % NODES]);
		std::swap(slots[any() % SLOTS], slots[any() % SLOTS]);
		if (n % 16 == 0)
			slots[any() % SLOTS].reset(new char[100]);
		if (n % 200000 == 0)
			nodes.rehash(nodes.bucket_count() > 200000 ? size_t(NODES) : 2 * nodes.bucket_count());
	}
}

int main(int argc, char **argv)
{
	target_begin(argc, argv);
	std::thread first(move_about, 1), second(move_about, 2);
	first.join();
}
