"""Huey on Redis, or on SQLite, durable: tasks that do nothing between two that write down when they ran.

`python peer.py fill N` queues them; `huey_consumer peer.huey -k process -w 2 -q` runs them.
"""

import os
import sys
import time

from huey import RedisHuey, SqliteHuey

STORE, MARKS = os.environ["BENCH_STORE"], os.environ["BENCH_MARKS"]
if STORE.startswith("redis://"):
    huey = RedisHuey("bench", url=STORE)
else:
    # Filling is not what is measured.
    huey = SqliteHuey("bench", filename=STORE, fsync=sys.argv[1:2] != ["fill"])


@huey.task()
def nothing():
    return None


@huey.task()
def mark(name):
    with open(f"{MARKS}.{name}.new", "w") as file:
        file.write(str(time.clock_gettime_ns(time.CLOCK_BOOTTIME)))
    os.rename(f"{MARKS}.{name}.new", f"{MARKS}.{name}")


if __name__ == "__main__":
    # The consumer knows this module as `peer`, and so must what is queued.
    import peer

    peer.mark("first")
    for _ in range(int(sys.argv[2])):
        peer.nothing()
    peer.mark("last")
