"""Huey on SQLite, durable: tasks that do nothing between two that write down when they ran.

`python peer.py fill N` queues them; `huey_consumer peer.huey -k process -w 2 -q` runs them.
"""

import os
import sys
import time

from huey import SqliteHuey

FILE = os.environ["BENCH_STORE"]
# Filling is not what is measured.
huey = SqliteHuey("bench", filename=FILE, fsync=sys.argv[1:2] != ["fill"])


@huey.task()
def nothing():
    return None


@huey.task()
def mark(name):
    with open(f"{FILE}.{name}.new", "w") as file:
        file.write(str(time.clock_gettime_ns(time.CLOCK_BOOTTIME)))
    os.rename(f"{FILE}.{name}.new", f"{FILE}.{name}")


if __name__ == "__main__":
    # The consumer knows this module as `peer`, and so must what is queued.
    import peer

    peer.mark("first")
    for _ in range(int(sys.argv[2])):
        peer.nothing()
    peer.mark("last")
