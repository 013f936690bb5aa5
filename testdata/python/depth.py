"""Allocates COUNT blocks below DEPTH frames, and prints the processor time of one in ns.

python3 depth.py python|native DEPTH COUNT. python: the frames are Python's, one run of the evaluation loop has them all, as from 3.11 on;
native: each Python frame has C functions of the interpreter around it, too.
"""

import sys
import time


def python(n):
    return python(n - 1) if n else many()


def native(n):
    return next(map(native, (n - 1,))) if n else many()


def many():
    block, count, now = bytes, int(sys.argv[3]), time.process_time_ns
    block(SIZE)
    start = now()
    for _ in range(count):
        block(SIZE)
    return (now() - start) / count


SIZE = 2_000  # more than what comes from Python's own arenas
sys.setrecursionlimit(10_000)
print({"python": python, "native": native}[sys.argv[1]](int(sys.argv[2])))
