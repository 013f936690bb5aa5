package workload

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const pythonScript = `
import json, xml.etree.ElementTree as ET, re, sqlite3, hashlib, ssl
for i in range(90):
    s = json.dumps({"k%d" % j: [j, str(j) * 50, {"a": "x" * 600}] for j in range(200)})
    json.loads(s)
    root = ET.Element("r")
    for j in range(300):
        ET.SubElement(root, "c", a=str(j)).text = "t" * 700
    ET.fromstring(ET.tostring(root))
    re.compile("(a|b)*c%d" % i).match("abab" * 200)
    db = sqlite3.connect(":memory:")
    db.execute("create table t(a, b)")
    db.executemany("insert into t values(?, ?)", [(j, "z" * 500) for j in range(500)])
    db.execute("select a, count(*) from t group by a order by b").fetchall()
    db.close()
    hashlib.sha256(s.encode()).hexdigest()
`

func python(dir string) ([]string, error) {
	path, err := Write(dir, "load.py", pythonScript)
	return []string{"/usr/bin/python3", path}, err
}

const sqliteScript = `
create table t(a integer primary key, b text, c text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
  insert into t select i, printf('%0*d', 40 + i % 300, i * 7919 % 10007), hex(i * i) from n;
create index u on t(b);
select count(*), max(length(s)) from (select group_concat(x.c) s from t x join t y on x.b = y.b group by x.a % 997);
select b from t order by c desc, b limit 3;
`

// SQLite is sqlite3 with a database in memory.
func SQLite(string) ([]string, error) { return []string{"sqlite3", ":memory:"}, nil }

func sqliteInput(dir string) (*os.File, error) { return SQLiteInput(dir, 6) }

// SQLiteInput is the script that it reads, so many times over.
func SQLiteInput(dir string, times int) (*os.File, error) {
	path, err := Write(dir, "load.sql", strings.Repeat("drop table if exists t;"+sqliteScript, times))
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// Stages are C++ templates that a compiler has much to do with: Stage<N>, which
// needs functional, map, string and vector.
const Stages = `template <int N> struct Stage {
	std::map<std::string, std::vector<std::function<int(int)>>> steps;
	int run(int x) {
		for (auto &[name, fs] : steps)
			for (auto &f : fs)
				x = f(x) + Stage<N - 1>().run(x);
		return x;
	}
};
template <> struct Stage<0> { int run(int x) { return x; } };`

const cxxProgram = `
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>
` + Stages + `
int main(int argc, char **argv) {
	std::regex words("(\\w+)=(\\d+)");
	std::smatch m;
	std::unordered_map<std::string, int> seen;
	for (std::string line; std::getline(std::cin, line);)
		if (std::regex_search(line, m, words))
			seen[m[1]] += std::stoi(m[2]) + Stage<30>().run(argc);
	for (auto &[k, v] : seen)
		std::cout << k << ' ' << v << '\n';
}
`

// Compiler is the C++ compiler proper, on a source that is preprocessed in dir.
func Compiler(dir string) ([]string, error) { return Compile(dir, cxxProgram) }

// SmallCompiler is Compiler on a smaller source, with containers and streams.
func SmallCompiler(dir string) ([]string, error) { return Compile(dir, smallSource) }

const smallSource = `
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
` + Stages + `
int main(int argc, char **argv) {
	std::unordered_map<std::string, int> seen;
	std::set<std::shared_ptr<std::string>> all;
	for (std::string line; std::getline(std::cin, line);) {
		std::istringstream in(line);
		std::vector<std::string> words;
		for (std::string w; in >> w;) words.push_back(w), all.insert(std::make_shared<std::string>(w));
		std::stable_sort(words.begin(), words.end());
		for (auto &w : words) seen[w] += Stage<20>().run(argc);
	}
	for (auto &[k, v] : seen)
		std::cout << k << ' ' << v << '\n';
}
`

// Clang is clang on the same source: one process, as it compiles within the one that it is started as.
func Clang(dir string) ([]string, error) {
	source, err := Write(dir, "load.cc", cxxProgram)
	if err != nil {
		return nil, err
	}
	clean := filepath.Join(dir, "load.ii")
	if err := Run("clang++-19", "-std=c++17", "-E", "-o", clean, source); err != nil {
		return nil, err
	}
	return []string{"clang++-19", "-std=c++17", "-O2", "-c", clean, "-o", filepath.Join(dir, "load.o")}, nil
}

// Compile is Compiler with another source.
func Compile(dir, text string) ([]string, error) {
	source, err := Write(dir, "load.cc", text)
	if err != nil {
		return nil, err
	}
	clean := filepath.Join(dir, "load.ii")
	if err := Run("g++", "-std=c++17", "-E", "-o", clean, source); err != nil {
		return nil, err
	}
	cc1plus, err := exec.Command("g++", "-print-prog-name=cc1plus").Output()
	if err != nil {
		return nil, err
	}
	return []string{strings.TrimSpace(string(cc1plus)), "-quiet", "-std=c++17", "-O2", clean, "-o", os.DevNull}, nil
}

const page = `<html><body><script>
for (let i = 0; i < 3000; i++) {
	const e = document.createElement("div");
	e.innerHTML = "<p class=c" + i + ">" + "text ".repeat(i % 50) + "</p><svg width=9 height=9><circle r=4></circle></svg>";
	document.body.appendChild(e);
	if (i % 7 == 0) document.body.removeChild(document.body.firstChild);
}
document.body.appendChild(document.createTextNode(JSON.stringify([...document.querySelectorAll("p")].map(p => p.className)).length));
</script></body></html>
`

func chromium(dir string) ([]string, error) {
	path, err := Write(dir, "page.html", page)
	return []string{"chromium", "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + filepath.Join(dir, "profile"),
		"--screenshot=" + filepath.Join(dir, "page.png"), "file://" + path}, err
}
