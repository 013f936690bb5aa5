#!/bin/bash
# Builds a C++ program with some megabytes of DWARF a unit, to measure names
# on big binaries with: 64 units give some 450 MB.
#
#   usage: bigdwarf.sh OUT [UNITS [G++ FLAG…]]
set -euo pipefail
out=$(realpath -m "${1:?usage: bigdwarf.sh OUT [UNITS [FLAG...]]}")
units=${2:-64}
shift $(($# < 2 ? $# : 2))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

for ((i = 0; i < units; i++)); do
	cat >"unit$i.cc" <<-UNIT
		#include <algorithm>
		#include <deque>
		#include <functional>
		#include <future>
		#include <iostream>
		#include <list>
		#include <map>
		#include <memory>
		#include <numeric>
		#include <random>
		#include <regex>
		#include <set>
		#include <sstream>
		#include <string>
		#include <thread>
		#include <tuple>
		#include <unordered_map>
		#include <variant>
		#include <vector>
		namespace unit$i {
		template <int N> struct Key {
			int a[N + 1];
			std::string s;
			bool operator<(const Key &o) const { return std::lexicographical_compare(a, a + N, o.a, o.a + N) || s < o.s; }
		};
		template <int N> struct Work {
			std::map<Key<N>, std::vector<std::unique_ptr<Key<N>>>> m;
			std::unordered_map<std::string, std::variant<int, std::string, Key<N>>> u;
			std::deque<std::tuple<Key<N>, std::string>> q;
			std::set<std::pair<int, Key<N>>> p;
			std::list<std::function<int(Key<N>)>> l;
			int run(int x) {
				Key<N> k{{x}, std::to_string(x)};
				m[k].push_back(std::make_unique<Key<N>>(k));
				u[k.s] = k;
				u.erase("x");
				q.emplace_back(k, k.s);
				q.push_front({k, "front"});
				p.emplace(x, k);
				l.push_back([this, x](Key<N> o) { return x + o.a[0] + (int)m.size(); });
				std::vector<Key<N>> v(q.size(), k);
				std::sort(v.begin(), v.end());
				std::stable_sort(v.begin(), v.end());
				std::mt19937 g(x);
				std::shuffle(v.begin(), v.end(), g);
				std::ostringstream o;
				for (auto &e : v) o << e.s << std::accumulate(e.a, e.a + N, 0);
				return std::regex_search(o.str(), std::regex("a+b|" + k.s)) + l.back()(v[0]) + (int)p.size();
			}
		};
		template <int... N> int all(int x, std::integer_sequence<int, N...>) { return (Work<N + 1>().run(x) + ...); }
		}
		int run$i(int x) { return unit$i::all(x, std::make_integer_sequence<int, 8>()); }
	UNIT
done
{
	for ((i = 0; i < units; i++)); do echo "int run$i(int);"; done
	echo 'int main(int argc, char **) { int n = 0;'
	for ((i = 0; i < units; i++)); do echo "n += run$i(argc);"; done
	echo 'return n; }'
} >main.cc

seq 0 $((units - 1)) | xargs -P "$(nproc)" -I '{}' nice g++ -O1 -g "$@" -c unit'{}'.cc -o unit'{}'.o
g++ -O1 -g "$@" -c main.cc -o main.o
g++ -o "$out" main.o unit*.o -pthread
