"""Jobs that a real worker runs, and `taskvisor.testing.inline` in the same way."""

import datetime
import enum
import time
from dataclasses import dataclass

from taskvisor import Advance, Fail, Retry, Snooze, current_job, encoder, job, progress

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


@dataclass
class Point:
    x: int
    when: datetime.date


class Money:
    def __init__(self, cents):
        self.cents = cents

    def __eq__(self, other):
        return self.cents == other.cents


class Colour(enum.Enum):
    RED = "r"


@dataclass(frozen=True)
class Corner:
    at: tuple


class Corners(enum.Enum):
    LEFT = 0, 1


encoder(Money, lambda money: money.cents, Money, name="test.Money")


@job
def echo(value):
    return [type(value).__name__, value]


@job
def cannot_be_kept(kind):
    return {"type": [object], "nan": float("nan"), "huge": "x" * (17 << 20)}[kind]


@job(queue="stages")
def cannot_be_kept_and_goes_on():
    if current_job().queue == "stages":
        return Advance("default", object())
    return "done"


@job
def tells_nothing():
    pass
