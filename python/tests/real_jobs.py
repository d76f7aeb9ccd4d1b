"""Jobs that a real worker runs, and `taskvisor.testing.inline` in the same way."""

import time

from taskvisor import Advance, Fail, Retry, Snooze, current_job, job, progress

@job
def add(a, b=1):
    print("adding")
    return a + b


@job
def long():
    time.sleep(600)


@job(retries=2)
def fails():
    raise ValueError(f"attempt {current_job().attempt}")


@job
def fails_for_good():
    raise Fail("for good")


@job
def misfits(a):
    return a


@job
def exits():
    raise SystemExit(3)


@job(retries=0)
def has_no_json():
    return {"a": [object]}


@job
def third_time():
    if current_job().attempt < 3:
        raise Retry(after=0, reason="not yet")
    return current_job().attempt


@job(retries=1)
def retries_and_fails():
    if current_job().attempt < 4:
        raise Retry(after=0, reason="not yet")
    raise ValueError("at last")


@job
def snoozes(path):
    try:
        with open(path, "x"):
            raise Snooze(after=0, reason="busy")
    except FileExistsError:
        return current_job().attempt


@job(queue="stages")
def stages():
    if current_job().queue == "stages":
        return Advance("default", {"bytes": 5})
    return [current_job().queue, current_job().attempt]


@job
def puts(n):
    progress(0.5, "half")
    return str(add.options(id=f"child-{n}").put(n, n))


@job
async def coroutine(n):
    await add.options(id=f"async-child-{n}").aput(n, n)
    return n


@job
async def coroutine_fails():
    raise KeyError("x")


@job
def waits_for_another():
    return add.put(1, 1).result()
