"""Prints the tables of lines of some of the standard library's code objects, and what the interpreter itself reads in them.

One JSON object: minor, and codes: [{first, table (hexadecimal), lines: [[byte, line or 0], ...]}]. tracer/python/testdata has
those of one interpreter of each version: PYTHON testdata/python/lines.py > tracer/python/testdata/lines-3.MINOR.json
"""

import argparse
import dis
import json
import sys
import types

import textwrap  # noqa: F401

MOST = 24


def lines_of(code):
    size = len(code.co_code)
    if hasattr(code, "co_lines"):
        out = {}
        for start, end, line in code.co_lines():
            for at in range(start, end, 2):
                out[at] = line or 0
        return sorted(out.items())
    starts = sorted(dis.findlinestarts(code))
    out, line = [], code.co_firstlineno
    for at in range(0, size, 2):
        for start, number in starts:
            if start <= at:
                line = number
        out.append((at, line))
    return out


def codes_of(module):
    with open(module.__file__, encoding="utf-8") as f:
        todo = [compile(f.read(), module.__file__, "exec")]
    while todo:
        code = todo.pop()
        yield code
        todo += [c for c in code.co_consts if isinstance(c, types.CodeType)]


codes = [c for m in (textwrap, argparse) for c in codes_of(m) if 20 < len(c.co_code) < 600][:MOST]
print(json.dumps({
    "minor": sys.version_info[1],
    "codes": [{
        "first": c.co_firstlineno,
        "table": (c.co_linetable if sys.version_info >= (3, 10) else c.co_lnotab).hex(),
        "lines": lines_of(c),
    } for c in codes],
}, separators=(",", ":")))
