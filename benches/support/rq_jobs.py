"""The functions that `rq.rs` measures with, and RQ's client: ``python rq_jobs.py URL``."""

import os
import subprocess
import sys
import time


def nothing():
    return None


def stamp(path):
    """Writes down when it began."""
    with open(f"{path}.new", "w") as file:
        file.write(str(time.clock_gettime_ns(time.CLOCK_BOOTTIME)))
    os.rename(f"{path}.new", path)


def tree(path):
    """Starts a process in a session of its own, writes down both, and waits."""
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    with open(f"{path}.new", "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    os.rename(f"{path}.new", path)
    time.sleep(1000)


def main():
    """Obeys the lines of stdin: `fill COUNT` or `put FUNCTION PATH`; prints when it began that, or the id of the job."""
    import rq_jobs
    from redis import Redis
    from rq import Queue

    queue = Queue(connection=Redis.from_url(sys.argv[1]))
    for line in sys.stdin:
        word, *rest = line.split()
        began = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        if word == "fill":
            jobs = [Queue.prepare_data(rq_jobs.nothing) for _ in range(int(rest[0]))]
            queue.enqueue_many(jobs)
            print(began, flush=True)
        elif rest[0] == "stamp":
            queue.enqueue(rq_jobs.stamp, rest[1])
            print(began, time.clock_gettime_ns(time.CLOCK_BOOTTIME), flush=True)
        else:
            print(queue.enqueue(rq_jobs.tree, rest[1]).id, flush=True)


if __name__ == "__main__":
    main()
