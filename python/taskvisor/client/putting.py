"""Puts jobs. Inside a job they go over the worker's channel, elsewhere by `outside`."""

from __future__ import annotations

from ..errors import PutError
from . import notes, running_job, stand_in
from .job_id import JobId
from .new_job import NewJob, fields_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Literal, Optional

def put(queue: str, class_name: str, data: Any = None, *, delay: Optional[float] = None,
        priority: Optional[int] = None, tags: Optional[Sequence[str]] = None, retries: Optional[int] = None,
        time_limit: Optional[float] = None, id: Optional[str] = None,
        exists: Optional[Literal["refuse", "skip"]] = None, depends: Optional[Sequence[str]] = None,
        expires: Optional[float] = None) -> JobId[Any]:
    """Queues a job of any class and returns its id, once it is durable.

        put("images", "Thumbnail", {"path": "/a.png"}, delay=10, tags=["nightly"])
    """
    job = NewJob(queue, class_name, data, delay, priority, tags, retries, time_limit, id, exists, depends, expires)
    return put_many([job])[0]


async def aput(queue: str, class_name: str, data: Any = None, *, delay: Optional[float] = None,
               priority: Optional[int] = None, tags: Optional[Sequence[str]] = None, retries: Optional[int] = None,
               time_limit: Optional[float] = None, id: Optional[str] = None,
               exists: Optional[Literal["refuse", "skip"]] = None,
               depends: Optional[Sequence[str]] = None, expires: Optional[float] = None) -> JobId[Any]:
    """As `put`; other tasks of the event loop go on until the job is durable.

        await aput("images", "Thumbnail", {"path": "/a.png"})
    """
    job = NewJob(queue, class_name, data, delay, priority, tags, retries, time_limit, id, exists, depends, expires)
    return (await aput_many([job]))[0]


def put_many(jobs: Iterable[NewJob]) -> list[JobId[Any]]:
    """Queues jobs, all or none, and returns their ids in the same order.

        put_many(send.prepare(to) for to in addresses)
    """
    wanted = fields_of(jobs)
    if not wanted:
        return []
    running = running_job.running()
    if running is None or running.runtime is None:
        return _from_outside(wanted)
    return _ids(running.runtime.call("put", {"jobs": wanted}))


async def aput_many(jobs: Iterable[NewJob]) -> list[JobId[Any]]:
    """As `put_many`; other tasks of the event loop go on until the jobs are durable.

        await aput_many([send.prepare("a@b.c"), send.prepare("d@e.f")])
    """
    wanted = fields_of(jobs)
    if not wanted:
        return []
    running = running_job.running()
    if running is None or running.runtime is None:
        from .threads import in_thread

        put: list[JobId[Any]] = await in_thread(_from_outside, wanted)
        return put
    return _ids(await running.runtime.call_async("put", {"jobs": wanted}))


def put_at(place: Optional[stand_in.StandIn], jobs: list[NewJob]) -> list[JobId[Any]]:
    """As `put_many`, at this place if one is given."""
    return put_many(jobs) if place is None else [of_place(place, id) for id in place.put(fields_of(jobs))]


async def aput_at(place: Optional[stand_in.StandIn], jobs: list[NewJob]) -> list[JobId[Any]]:
    """As `put_at`; other tasks of the event loop go on until the jobs are durable."""
    if place is None:
        return await aput_many(jobs)
    from .threads import in_thread

    ids: list[str] = await in_thread(place.put, fields_of(jobs))
    return [of_place(place, id) for id in ids]


def of_place(place: stand_in.StandIn, job: str) -> JobId[Any]:
    """The id of a job that was put there: what it does goes there."""
    made: JobId[Any] = JobId(job)
    made._place = place
    return made


def _from_outside(wanted: list[dict[str, Any]]) -> list[JobId[Any]]:
    place = stand_in.place()
    if place is not None:
        return list(map(JobId, place.put(wanted)))
    from . import outside

    return list(map(JobId, outside.put(wanted)))


def _ids(answer: Any) -> list[JobId[Any]]:
    try:
        ids: list[JobId[Any]] = [JobId(id) for id in answer["ids"]]
    except (TypeError, KeyError):
        raise PutError(f"failed to put: the supervisor answered {answer!r}") from None
    notes.warn(answer.get("notes"))
    return ids
