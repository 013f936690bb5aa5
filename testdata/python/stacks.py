"""Allocates blocks of SIZE bytes in all ways that Python code calls Python code, and prints at which stacks.

The answer is one line of JSON: a list of [count, [[function, file, line], ...]], innermost frame first, as the
interpreter itself has the stacks (sys._getframe). python3 stacks.py [attach] [forget] [ROUNDS]; attach: prints
"ready PID" and waits for a line first; forget: code that is made at run time is freed. The answer has "said: " before it.
The program then waits for a line before it ends.
"""

import asyncio
import collections
import contextlib
import ctypes
import functools
import importlib.util
import itertools
import json
import os
import random
import sys
import threading
import zlib

SIZE = 200_000 - 33  # a bytes object has 33 bytes more
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
answer = collections.Counter()
lock = threading.Lock()
kept = []  # code objects that are made at run time, so that they can be read
forget = "forget" in sys.argv


def stack_of(frame):
    out = []
    while frame is not None:
        code = frame.f_code
        out.append((getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(out)


def seen(_block):
    with lock:
        answer[stack_of(sys._getframe(1))] += 1


def seen_raw(block):
    with lock:
        answer[stack_of(sys._getframe(1))] += 1
    libc.free(block)


class Node:
    def __init__(self, r, depth):
        self.r, self.depth = r, depth
        step(r, depth)

    @property
    def value(self):
        return step(self.r, self.depth)

    def __lt__(self, other):
        step(self.r, self.depth)
        return False

    @staticmethod
    def static(r, depth):
        seen(bytes(SIZE))
        step(r, depth)


def numbers(r, depth):
    for i in range(2):
        seen(bytes(SIZE))
        step(r, depth)
        yield i


def delegated(r, depth):
    yield from numbers(r, depth)


@contextlib.contextmanager
def context(r, depth):
    step(r, depth)
    yield
    seen(bytes(SIZE))


@functools.lru_cache(maxsize=None)
def cached(r, depth, _key):
    return step(r, depth)


def raises(r, depth):
    try:
        [][depth]
    except IndexError as err:
        seen(bytes(SIZE)); step(r, depth)
        try:
            undefined_name  # noqa: F821
        except NameError:
            seen(bytes(SIZE))
            raise ValueError("x") from err


def plain(r, depth):
    seen(bytes(SIZE))
    step(r, depth)
    seen(bytes(SIZE))
    seen(bytearray(SIZE + 32))  # which has one byte more than it is asked for


def native(r, depth):
    seen_raw(libc.malloc(SIZE + 33))  # without the GIL
    step(r, depth)


def compiled(r, depth):
    code = "def inner(r, depth):\n    seen(bytes(SIZE))\n\n    step(r, depth)\ninner(r, depth)"
    code = compile(code, "<made at %d>" % depth, "exec")
    if not forget:
        kept.append(code)
    exec(code, dict(globals(), r=r, depth=depth))


def many_lines(
    r,
    depth,
):
    total = (
        depth
        + 1
    )
    seen(bytes(SIZE)) if total else None
    return [step(r, depth) for _ in range(1)]


class Finder:
    """Is asked for modules by the interpreter's own frozen code."""

    asked = {}
    numbers = itertools.count()

    @classmethod
    def find_spec(cls, name, _path=None, _target=None):
        if name in cls.asked:
            seen(bytes(SIZE))
            step(*cls.asked.pop(name))


def frozen(r, depth):
    name = "none_%d" % next(Finder.numbers)
    Finder.asked[name] = r, depth
    importlib.util.find_spec(name)


def step(r, depth):
    if depth <= 0:
        seen(bytes(SIZE))
        return 0
    depth -= 1
    what = r.randrange(15)
    if what == 0:
        plain(r, depth)
    elif what == 1:
        list(numbers(r, depth))
    elif what == 2:
        sorted([1, 2], key=lambda x: step(r, depth))
    elif what == 3:
        Node(r, depth)
    elif what == 4:
        n = Node(r, 0); n.depth = depth; n.value
    elif what == 5:
        with context(r, depth):
            seen(bytes(SIZE))
    elif what == 6:
        try:
            raises(r, depth)
        except ValueError:
            seen(bytes(SIZE))
    elif what == 7:
        native(r, depth)
    elif what == 8:
        compiled(r, depth)
    elif what == 9:
        list(map(functools.partial(step, r), [depth]))
    elif what == 10:
        sum(delegated(r, depth))
    elif what == 11:
        cached(r, depth, r.random())
    elif what == 12:
        many_lines(r, depth)
    elif what == 13:
        frozen(r, depth)
    else:
        Node.static(r, depth)
    return 0


def worker(seed, rounds):
    r = random.Random(seed)
    for _ in range(rounds):
        step(r, r.randrange(8))


def squeeze(rounds):
    for _ in range(rounds):
        zlib.compress(b"x" * 100_000)  # without the GIL, for the most part


async def task(r, depth):
    seen(bytes(SIZE))
    await asyncio.sleep(0)
    step(r, 2)
    if depth:
        await asyncio.gather(task(r, depth - 1), task(r, depth - 1))


def work(rounds):
    worker(1, rounds)
    threads = [threading.Thread(target=worker, args=(i, rounds)) for i in range(2, 6)]
    threads += [threading.Thread(target=squeeze, args=(rounds,)) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    asyncio.run(task(random.Random(7), 4))


def main():
    arguments = [a for a in sys.argv[1:] if a != "forget"]
    attach = arguments[:1] == ["attach"]
    sys.meta_path.insert(0, Finder)
    if attach:
        print("ready", os.getpid(), flush=True)
        sys.stdin.readline()
    work(int((arguments[attach:] or ["60"])[0]))
    print("said:", json.dumps([[n, stack] for stack, n in answer.items()]), flush=True)
    sys.stdin.readline()


main()
