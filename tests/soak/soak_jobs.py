"""Jobs of the soak in Python, for each mode and for RQ. As a program it puts jobs by RQ's client: `soak_jobs.py PORT`."""

import asyncio
import contextlib
import fcntl
import json
import os
import sys
import time


def say(path, *words):
    with open(path, "a") as file:
        file.write(" ".join(map(str, words)) + "\n")


@contextlib.contextmanager
def run(path, fails):
    """Holds the lock of the job, so that a run beside this one shows; fails as often as it is to."""
    with open(path + ".lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(path, "twice")
        say(path, "begun", os.getpid(), int(time.time() * 1000))
        with open(path) as said:
            if sum(line.startswith("begun") for line in said) <= fails:
                raise ValueError("as it is to")
        yield
        say(path, "ended", int(time.time() * 1000))


def soak(path, lasts, fails):
    with run(path, fails):
        time.sleep(lasts)


async def soak_async(path, lasts, fails):
    with run(path, fails):
        await asyncio.sleep(lasts)


def put(port):
    """Answers each line, a list of arguments with the number of retries, with the id of the job, or null."""
    import redis
    import rq
    from redis.backoff import NoBackoff
    from redis.retry import Retry
    # A put that is sent again by itself would be two.
    once = redis.Redis(port=port, socket_timeout=5, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0))
    queue = rq.Queue("default", connection=once)
    for line in sys.stdin:
        *arguments, retries = json.loads(line)
        retry = rq.Retry(max=retries, interval=1) if retries else None
        try:
            answer = queue.enqueue("soak_jobs.soak", *arguments, retry=retry).id
        except Exception:
            answer = None
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    put(int(sys.argv[1]))
elif "TASKVISOR_FD" in os.environ:
    from taskvisor import job
    job("soak")(soak)
    job("soak.async")(soak_async)
