"""One insert, as a job of taskvisor and as one of RQ; and RQ's side of the bench: `leap.py put|work URL [COUNT RATE]`."""

import os
import sqlite3
import sys
import time


def now():
    """Nanoseconds since boot."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def write(entity):
    """Writes a row, and then a line that says when it was durable."""
    place = os.environ["BENCH_ROWS"]
    rows = sqlite3.connect(place, timeout=5)
    try:
        with rows:
            rows.execute("CREATE TABLE IF NOT EXISTS entity (id, type)")
            rows.execute("INSERT INTO entity VALUES (?, ?)", (entity["id"], entity["type"]))
    finally:
        rows.close()
    with open(place + ".times", "a") as times:
        times.write(f"{entity['id']} {now()}\n")


def put(queue, count, rate):
    """Puts so many, so many a second; each names the moment when it was put."""
    begin = time.monotonic()
    for n in range(count):
        time.sleep(max(0.0, begin + n / rate - time.monotonic()))
        queue.enqueue("leap.write", {"id": str(now()), "type": "Room"})


def main():
    verb, url, *rest = sys.argv[1:]
    from redis import Redis
    from rq import Queue, SimpleWorker

    redis = Redis.from_url(url)
    queue = Queue("default", connection=redis)
    if verb == "put":
        put(queue, int(rest[0]), float(rest[1]))
    else:
        SimpleWorker([queue], connection=redis).work(logging_level="ERROR", with_scheduler=True)


if __name__ == "__main__":
    main()
else:
    try:
        from taskvisor import job
    except ImportError:  # RQ's worker does without.
        pass
    else:

        @job("Insert")
        def insert(payload, **_):
            write(payload[0])
