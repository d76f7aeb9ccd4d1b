"""Jobs of the contract, and what is put of them: the same by `inline`, `recording` and real workers."""

import datetime
import decimal
import os
import pathlib
import uuid

import real_jobs

from taskvisor import Advance, Fail, NewJob, Retry, Snooze, current_job, job, progress, put, put_many


class Broken(Exception):
    pass


@job
def raises(how):
    if how == "empty":
        raise ValueError
    if how == "own":
        raise Broken("mine")
    if how == "chain":
        try:
            raise KeyError("first")
        except KeyError as error:
            raise RuntimeError("second") from error
    if how == "lines":
        raise ValueError("one\ntwo")
    if how == "unicode":
        raise ValueError("\u00e4\u20ac")
    if how == "nested Fail":
        try:
            raise Fail("for good")
        finally:
            progress(0.25)
    if how == "exit 0":
        raise SystemExit(0)
    if how == "exit text":
        raise SystemExit("bye")
    if how == "base":
        raise BaseException("base")
    if how == "timeout":
        raise TimeoutError("late")
    if how == "assert":
        raise AssertionError("wrong")


@job(retries=1)
def tells():
    running = current_job()
    return {"class": running.class_name, "queue": running.queue, "attempt": running.attempt, "retries": running.retries,
            "priority": running.priority, "tags": running.tags, "canceled": running.canceled}


@job
def advises(fraction, message=None):
    progress(fraction, message)
    return fraction


@job(queue="one")
def three_stages():
    if current_job().queue == "one":
        return Advance("two", 1)
    if current_job().queue == "two":
        return Advance("three", {"a": 2})
    return current_job().attempt


@job(queue="one", retries=2)
def fails_in_a_later_stage():
    if current_job().queue == "one":
        return Advance("two")
    raise ValueError(f"attempt {current_job().attempt}")


@job
def puts_many(n):
    ids = put_many([real_jobs.add.options(id=f"many-{number}").prepare(number) for number in range(n)])
    return list(ids)


@job
def puts_wrongly():
    try:
        real_jobs.add.options(depends=["nobody"]).put(1)
    except Exception as error:
        return type(error).__name__


@job
async def coroutine_retries():
    if current_job().attempt == 1:
        raise Retry(after=0, reason="not yet")
    return current_job().attempt


@job
async def coroutine_advances():
    return Advance("two", 5) if current_job().queue == "default" else "there"


@job(retries=3)
def snoozes_then_fails(path):
    if not os.path.exists(path):
        open(path, "w").close()
        raise Snooze(after=0)
    raise Fail(f"attempt {current_job().attempt}")


@job
def keyword_only(*, a, b=2):
    return [a, b]


@job
def variadic(first, *rest):
    return [first, *rest]


@job
def named(first, **rest):
    return [first, rest]


VALUES = {
    "null": None, "true": True, "number": 12345678901234567890, "fraction": 0.1, "text": "\u00e4\u20ac\x00", "list": [1, [2]],
    "object": {"a": {"b": None}}, "date": datetime.date(2026, 11, 28), "time": datetime.time(1, 2, 3),
    "moment": datetime.datetime(2026, 11, 28, 1, 2, 3, 4, datetime.timezone.utc), "span": datetime.timedelta(days=1, seconds=2),
    "decimal": decimal.Decimal("0.10"), "uuid": uuid.UUID(int=7), "path": pathlib.Path("/a/b"), "set": {1, 2},
    "frozen": frozenset("a"), "bytes": b"\x00\xff", "dataclass": real_jobs.Point(1, datetime.date(2026, 1, 1)),
    "enum": real_jobs.Colour.RED, "encoder": real_jobs.Money(5), "tuple": (1, 2),
}
RAISED = ("empty", "own", "chain", "lines", "unicode", "nested Fail", "exit 0", "exit text", "timeout", "assert")


def first_cases(directory):
    """What jobs of `real_jobs` do."""
    path = os.path.join(directory, "snoozed")
    return {
        "result": lambda: real_jobs.add.put(1, b=2),
        "default": lambda: real_jobs.add.put(1),
        "positional data": lambda: put("default", "real_jobs.add", [1, 2]),
        "single value": lambda: put("default", "real_jobs.add", 7),
        "tries": real_jobs.fails.put,
        "no tries": lambda: real_jobs.fails.options(retries=0).put(),
        "for good": real_jobs.fails_for_good.put,
        "arguments": lambda: put("default", "real_jobs.misfits", {"b": 1}),
        "exit": lambda: real_jobs.exits.options(retries=0).put(),
        "no json": real_jobs.has_no_json.put,
        "retry": lambda: real_jobs.third_time.options(retries=5).put(),
        "retries and fails": real_jobs.retries_and_fails.put,
        "snooze": lambda: real_jobs.snoozes.put(path),
        "stages": real_jobs.stages.put,
        "puts": lambda: real_jobs.puts.put(3),
        "coroutine": lambda: real_jobs.coroutine.put(4),
        "coroutine fails": lambda: real_jobs.coroutine_fails.options(retries=0).put(),
    }


def cases(directory):
    """What is put, by name: a function that puts it, and returns an id."""
    found = {f"value {name}": lambda value=value: real_jobs.echo.put(value) for name, value in VALUES.items()}
    found.update((f"raises {how}", lambda how=how: raises.options(retries=1).put(how)) for how in RAISED)
    found.update({
        "options": lambda: tells.options(id="mine", priority=-3, tags=["x", "y"]).put(),
        "retries of the put": lambda: tells.options(retries=7).put(),
        "time limit": lambda: tells.options(time_limit=30).put(),
        "other queue": lambda: tells.options(queue="two").put(),
        "id that exists": lambda: real_jobs.add.options(id="mine", exists="skip").put(9),
        "needs": lambda: real_jobs.add.options(depends=[real_jobs.add.put(1)]).put(2),
        "batch with needs": lambda: put_many([NewJob("default", "real_jobs.add", [1], id="second", depends=["first"]),
                                              NewJob("default", "real_jobs.add", [2], id="first")])[0],
        "keyword only": lambda: keyword_only.put(a=1),
        "variadic": lambda: variadic.put(1, 2, 3),
        "named": lambda: named.put(1, x=2),
        "list of one": lambda: put("default", "contract_jobs.variadic", ["a"]),
        "no data": lambda: put("default", "contract_jobs.tells"),
        "too many": lambda: put("default", "contract_jobs.tells", [1]),
        "unknown name": lambda: put("default", "contract_jobs.keyword_only", {"x": 1}),
        "progress": lambda: advises.put(0.5, "half"),
        "progress beyond": lambda: advises.put(7),
        "three stages": three_stages.put,
        "late failure": fails_in_a_later_stage.put,
        "puts many": lambda: puts_many.put(3),
        "puts wrongly": puts_wrongly.put,
        "coroutine retries": lambda: coroutine_retries.options(retries=2).put(),
        "coroutine advances": coroutine_advances.put,
        "snooze then Fail": lambda: snoozes_then_fails.put(os.path.join(directory, "seen")),
        "type is not kept": lambda: real_jobs.cannot_be_kept.put("type"),
        "nan is not kept": lambda: real_jobs.cannot_be_kept.put("nan"),
        "stage is not kept": real_jobs.cannot_be_kept_and_goes_on.put,
        "zero retries": lambda: real_jobs.fails.options(retries=0).put(),
        "Retry without tries": lambda: real_jobs.third_time.options(retries=1).put(),
        "result is text": lambda: real_jobs.puts.put("text"),
    })
    assert not found.keys() & first_cases(directory).keys()
    return {**first_cases(directory), **found}
