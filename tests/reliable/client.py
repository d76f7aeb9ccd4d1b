"""The client of the reliable-worker-queue tutorial on its four keys, with the arguments of today's redis-py."""

import json
import subprocess
import sys
import time
import uuid

import redis


class Queue:
    def __init__(self, url, stale_time=30):
        self.db = redis.Redis.from_url(url)
        self.stale_time = stale_time

    def enqueue(self, value):
        id = str(uuid.uuid4())
        self.db.hset("values", id, value)
        self.db.lpush("pending", id)
        return id

    def take(self):
        """As published with a WATCH, and the MULTI that this needs: without it one call drains the whole queue."""
        with self.db.pipeline() as pipe:
            while True:
                try:
                    pipe.watch("pending")
                    id = pipe.lindex("pending", -1)
                    if id is None:
                        return None
                    pipe.multi()
                    pipe.rpop("pending")
                    pipe.zadd("working", {id: time.time()})
                    pipe.execute()
                    return id
                except redis.WatchError:
                    continue

    def value(self, id):
        return self.db.hget("values", id)

    def record(self, id, result):
        self.db.hset("results", id, result)

    def result(self, id):
        return self.db.hget("results", id)

    def tidy(self):
        pipe = self.db.pipeline()
        cut_off = time.time() - self.stale_time
        pipe.zrangebyscore("working", 0, cut_off)
        pipe.zremrangebyscore("working", 0, cut_off)
        stale = pipe.execute()[0]
        if stale:
            results = self.db.hmget("results", *stale)
            again = [id for id, result in zip(stale, results) if result is None]
            if again:
                self.db.lpush("pending", *again)


def produce(queue, pause, *values):
    """Puts each value, and prints its id and its result once it arrives."""
    ids = []
    for value in values:
        ids.append(queue.enqueue(value))
        time.sleep(float(pause))
    for id in ids:
        while (result := queue.result(id)) is None:
            time.sleep(0.02)
        print(json.dumps([id, result.decode()]), flush=True)


def work(queue, tidy_interval):
    """Runs programs that values name, until it is killed."""
    tidy_at = time.time()
    while True:
        if time.time() >= tidy_at:
            queue.tidy()
            tidy_at = time.time() + float(tidy_interval)
        id = queue.take()
        value = queue.value(id) if id is not None else None
        if value is None:
            time.sleep(0.02)
            continue
        program = json.loads(value)["data"]
        done = subprocess.run(program["argv"], cwd=program["cwd"])
        if done.returncode == 0:
            queue.record(id, "theirs")


def nothing(queue, count):
    """Runs `count` empty jobs, and prints the number of jobs a second."""
    began, done = time.perf_counter(), 0
    while done < int(count):
        id = queue.take()
        if id is None:
            continue
        queue.value(id)
        queue.record(id, "null")
        done += 1
    print(done / (time.perf_counter() - began))


if __name__ == "__main__":
    verb, url, *rest = sys.argv[1:]
    stale_time, *rest = rest
    {"produce": produce, "work": work, "nothing": nothing}[verb](Queue(url, float(stale_time)), *rest)
