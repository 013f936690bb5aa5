// Something for a compiler to do.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

int main()
{
	std::map<std::string, std::vector<std::function<int(int)>>> m;
	std::unordered_map<std::string, std::set<int>> u;
	std::regex r("a(b|c)*d");
	m["x"].push_back([](int i) { return i + 1; });
	u["y"].insert(m["x"][0](1));
	std::cout << std::regex_match("abcd", r) << u.size() << m.size() << std::endl;
	auto p = std::make_unique<std::vector<std::string>>();
	p->push_back("z");
	std::sort(p->begin(), p->end());
	return p->size() != 1;
}
