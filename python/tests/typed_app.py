"""What a type checker says of an application: mypy reads this file, nothing runs it. A wrong call is marked as such, and
a mark on a right one is an error, too."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from typing_extensions import assert_type

from taskvisor import (AsyncClient, Client, JobFailed, JobId, JobInfo, NewJob, agather, aput, as_completed, gather, job,
                       put, put_many)
from taskvisor.testing import Server, inline, recording


@job(queue="mail", retries=3)
def send(to: str, subject: str = "hi") -> dict[str, int]:
    return {to: len(subject)}


@job
def add(a: int, b: int = 1) -> int:
    return a + b


@job
async def crawl(url: str) -> bytes:
    return url.encode()


@job("named")
async def named(url: str) -> float:
    return float(url)


def plain() -> None:
    assert_type(add(1), int)
    assert_type(send.put("a@b.c", subject="x"), JobId[dict[str, int]])
    assert_type(send.options(delay=5, expires=60, exists="skip", tags=["x"]).put("a@b.c").result(timeout=5), dict[str, int])
    assert_type(crawl.put("x").result(), bytes)
    called = crawl("x")
    called = assert_type(called, Coroutine[Any, Any, bytes])
    called.close()
    assert_type(named.put("x").result(), float)
    assert_type(add.put(1).wait(), str)
    assert_type(add.put(1).cancel(wait=False), str)
    assert_type(add.put(1).info(), JobInfo)
    assert_type(gather([add.put(1), add.put(2)]), list[int])
    assert_type([ended.result() for ended in as_completed([add.put(1)])], list[int])
    assert_type(put_many([add.prepare(1), NewJob("q", "c")]), list[JobId[Any]])
    assert_type(put("q", "c", [1], exists="refuse"), JobId[Any])
    with inline() as jobs:
        assert_type(jobs.assert_put(add, 1), JobInfo)
    with recording() as recorded:
        assert_type(recorded.jobs, list[JobInfo])
    with Server("app") as server:
        server.drain()


async def asynchronous() -> None:
    id = await crawl.aput("x")
    assert_type(await id.aresult(), bytes)
    assert_type(await agather([id]), list[bytes])
    async for ended in as_completed([id]):
        assert_type(ended, JobId[bytes])
    assert_type(await aput("q", "c", delay=5), JobId[Any])


def wrong() -> None:
    send.put(1)  # type: ignore[arg-type]
    send.put()  # type: ignore[call-arg]
    send.put("a", text="x")  # type: ignore[call-arg]
    send.options(later=5)  # type: ignore[call-arg]
    send.options(exists="replace")  # type: ignore[arg-type]
    crawl.put(5)  # type: ignore[arg-type]
    put("q", "c", delay="5s")  # type: ignore[arg-type]
    add.put(1).result(5, True)  # type: ignore[call-arg]
    length: str = add.put(1).result()  # type: ignore[assignment]
    raise JobFailed(length)  # type: ignore[arg-type]


def clients(client: Client, asynchronous: AsyncClient) -> None:
    assert_type(client.put("q", "c"), JobId[Any])
    assert_type(client.queues()["mail"]["jobs"], dict[str, int])
    assert_type(client.status()["pools"][0]["name"], str)
    assert_type(client.jobs(state="failed")[0], JobInfo)
    assert_type(client.put_recurring("n", send.prepare("a"), every=60)["recurring"]["name"], str)
    assert_type(send.options(client=asynchronous).put("a").result(), dict[str, int])
    client.jobs(state="done")  # type: ignore[arg-type]
    client.put_recurring("n", send.prepare("a"), every=60)["name"]  # type: ignore[typeddict-item]
    client.stop("now")  # type: ignore[arg-type]
    for event in client.events(kind="complete"):
        assert_type(event["at"], str)


async def asynchronous_client(client: AsyncClient) -> None:
    assert_type(await (await client.put("q", "c")).aresult(), Any)
    assert_type(await client.before("7"), int)
    assert_type((await client.scale("mail", to=3))["workers"], int)
