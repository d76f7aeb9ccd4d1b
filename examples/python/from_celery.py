# delay, apply_async, AsyncResult.get, group, chain, self.retry, revoke, beat
from taskvisor import Advance, Client, Retry, current_job, gather, job, put_many

@job(retries=5, retry_delay=1, retry_cap=60)
def add(x, y):
    if (x, current_job().attempt) == (7, 1):
        raise Retry(after=0.1, reason="not yet")  # raise self.retry(countdown=0.1)
    return x + y

@job(queue="images")
def film(path):
    if current_job().queue == "images":
        return Advance("default", {"cut": path})  # chain(cut.s(path), publish.s())
    return "published"

if __name__ == "__main__":
    assert add.options(priority=5).put(7, 2).result(timeout=60) == 9  # apply_async(…).get()
    ids = put_many(add.prepare(n, n) for n in range(10))  # group(add.s(n, n) for n in …)()
    assert gather(ids, timeout=60) == [n + n for n in range(10)]
    assert film.put("/a").result(timeout=60) == "published"
    assert add.options(delay=3600).put(1, 1).cancel() == "canceled"  # revoke(id, terminate=True)
    Client().put_recurring("sums", add.prepare(1, 2), cron="0 3 * * *")  # beat_schedule
