package main

import (
	"os/exec"
	"strings"
)

// A program is what is traced. It ends by itself.
type program struct {
	name, what string
	argv       []string
}

func programs() []program {
	cc1plus, arch := told("-print-prog-name=cc1plus"), told("-print-multiarch")
	return []program{
		{"cc1plus", "g++'s compiler, on a file of testdata", []string{cc1plus, "-quiet", "-imultiarch", arch, "-std=c++17", "-O1", "-D_GNU_SOURCE", "testdata/programs/cxx_containers.cc", "-o", "/dev/null"}},
		{"python3", "parses and compiles modules of its library", []string{"/usr/bin/python3", "-S", "-c", `
import ast, glob
for name in sorted(glob.glob('/usr/lib/python3*/*.py'))[:25]:
    compile(ast.parse(open(name, encoding='utf-8', errors='replace').read()), name, 'exec')
`}},
		{"sqlite3", "fills a table and an index, and sorts", []string{"sqlite3", ":memory:", `
CREATE TABLE t(a INTEGER, b TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 60000) INSERT INTO t SELECT i*7919%60000, 'row number ' || i FROM n;
CREATE INDEX x ON t(b);
SELECT count(*) FROM (SELECT upper(b), a FROM t ORDER BY a);
`}},
	}
}

// told is what g++ says of itself.
func told(question string) string {
	out, err := exec.Command("g++", question).Output()
	if err != nil {
		return "cc1plus" // which can't be started, and the error says so
	}
	return strings.TrimSpace(string(out))
}
