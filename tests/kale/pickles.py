"""Writes pickles as Python does, and reads those that Rust wrote. Lines of JSON in, lines of JSON out."""

import collections
import datetime
import decimal
import json
import pickle
import sys

SHARED = ["shared", {"key": 1}]


class Thing:
    def __init__(self):
        self.name = "thing"

    def __eq__(self, other):
        return self.name == other.name


PLAIN = [
    None, True, False, 0, 1, 255, 256, 65535, 65536, -1, -128, 2**31, -(2**31), 2**63, -(2**63), 2**64, 10**40, -(10**40),
    0.0, -1.5, 1e300, "", "two", "ü€😀", "a\\b\n\r\x00'\"", b"", b"\x00\xff" * 9, "x" * 300, b"y" * 70000, [], (), {},
    [1], [1, 2], (1,), (1, 2, 3), (1, 2, 3, 4), {"k": None}, {1: (2, [3])}, {"a": 1, "b": 2}, set(), {1}, {1, 2},
    frozenset(), frozenset([3]), list(range(2500)), {i: i for i in range(1001)},
]
ODD = [datetime.datetime(2021, 12, 10), decimal.Decimal("1.5"), collections.OrderedDict(a=1), Thing(), bytearray(b"x"),
       1 + 2j, "\ud800", collections.deque([1]), collections.defaultdict(list, a=[1]), datetime.timezone.utc]


def message(args, retry_num=0):
    return {
        "id": "Noop_uuid_1", "task": "kb_tasks.Noop",
        "payload": {"args": args, "kwargs": {"same": SHARED, "again": SHARED}, "app_data": None},
        "_enqueued_time": 123.5, "_publisher": "host[7]", "retry_num": retry_num, "failure_num": 0,
    }


def written():
    """All values in all protocols: whether Rust can write it, and the pickle."""
    for plain, values in ((True, PLAIN), (False, ODD)):
        for at, value in enumerate(values):
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                yield {"plain": plain, "at": at, "protocol": protocol,
                       "pickle": pickle.dumps(message((value,)), protocol).hex()}


def read(line):
    """Whether a pickle that Rust made has the same value as its original."""
    given = json.loads(line)
    values = PLAIN if given["plain"] else ODD
    expected = message((values[given["at"]],), retry_num=given["retry_num"])
    found = pickle.loads(bytes.fromhex(given["pickle"]))
    same = found == expected and type(found["payload"]["args"][0]) is type(expected["payload"]["args"][0])
    # The pickle of Python, where it writes one frame.
    return {"same": same, "python": pickle.dumps(found, 4).hex(), "found": repr(found)[:200]}


if __name__ == "__main__":
    lines = written() if sys.argv[1] == "write" else map(read, sys.stdin)
    for line in lines:
        print(json.dumps(line))
