"""The floor of a Python worker on Redis: `python bare.py URL N` takes N jobs with 2 processes, each of which moves one to a list
of its own, calls a function that does nothing with its data, and removes it. Prints the seconds and those of CPU that it took.
"""

import json
import os
import resource
import sys
import time

import redis


def nothing(data):
    return None


def work(url, own, ready):
    server = redis.Redis.from_url(url)
    server.ping()
    ready.read(1)
    while (job := server.blmove("bench:jobs", own, 0, "LEFT", "RIGHT")) != b"end":
        nothing(json.loads(job))
        server.lrem(own, 1, job)
    os._exit(0)


if __name__ == "__main__":
    url, count = sys.argv[1], int(sys.argv[2])
    server = redis.Redis.from_url(url)
    server.delete("bench:jobs")
    for start in range(0, count, 1000):
        jobs = range(start, min(start + 1000, count))
        server.rpush("bench:jobs", *(json.dumps({"jid": f"{n:032x}"}) for n in jobs))
    server.rpush("bench:jobs", "end", "end")
    end, ready = os.pipe()
    for n in range(2):
        if not os.fork():
            os.close(ready)
            work(url, f"bench:taken:{n}", open(end, "rb"))
    # Time for them to connect; closing the pipe lets both begin.
    time.sleep(0.3)
    began = time.monotonic()
    os.close(ready)
    for n in range(2):
        os.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(time.monotonic() - began, used.ru_utime + used.ru_stime)
