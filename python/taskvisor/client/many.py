"""Results of many jobs over few connections: `gather` in the order of the jobs, `as_completed` as they end."""

from __future__ import annotations

import time

from .job_id import JobId, awith_record, may_wait, seconds_left, told, value, with_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
    from typing import Any, Generic, Literal, Optional, TypeVar, overload

    from .stand_in import StandIn

    R = TypeVar("R")
else:
    from .job_id import Generic

    R = None

    def overload(function):
        """Stands in for `typing.overload`."""
        return function


class Completions(Generic[R]):
    """Jobs as they end: for `for` and for `async for`. Made by `as_completed`."""

    def __init__(self, jobs: Sequence[str], timeout: Optional[float]) -> None:
        self._jobs = jobs
        self._timeout = timeout
        self._place = place_of(jobs)

    def __iter__(self) -> Iterator[JobId[R]]:
        from . import waiting

        for job, line in waiting.ends(self._jobs, self._timeout, self._place):
            yield _with_end(job, line, self._place)

    async def __aiter__(self) -> AsyncIterator[JobId[R]]:
        from . import waiting

        async for job, line in waiting.aends(self._jobs, self._timeout, self._place):
            yield _with_end(job, line, self._place)


def _with_end(job: str, line: bytes, place: Optional[StandIn]) -> JobId[Any]:
    ended: JobId[Any] = JobId(job)
    ended._end, ended._place = line, place
    return ended


def place_of(jobs: Iterable[str]) -> Optional[StandIn]:
    """Where these jobs were put, if by one client. Jobs of several clients are waited for apart."""
    places = {id(place): place for place in (getattr(job, "_place", None) for job in jobs)}
    if len(places) > 1:
        raise ValueError("these jobs were put by different clients: wait for those of each by itself")
    return next(iter(places.values()), None)


@overload
def as_completed(jobs: Iterable[JobId[R]], timeout: Optional[float] = None, *,
                 hold_slot: bool = False) -> Completions[R]: ...


@overload
def as_completed(jobs: Iterable[str], timeout: Optional[float] = None, *, hold_slot: bool = False) -> Completions[Any]: ...


def as_completed(jobs: Iterable[str], timeout: Optional[float] = None, *, hold_slot: bool = False) -> Completions[Any]:
    """The ids of these jobs, each when it has ended: ``for`` or ``async for``. Its `result` is there then.

        for ended in as_completed(ids):
            print(ended, ended.result())

    One connection serves them all, up to 100,000; more take several. TimeoutError after `timeout` seconds in all.
    """
    may_wait(hold_slot)
    return Completions(list(jobs), timeout)


@overload
def gather(jobs: Iterable[JobId[R]], timeout: Optional[float] = None, *, return_exceptions: Literal[False] = False,
           hold_slot: bool = False) -> list[R]: ...


@overload
def gather(jobs: Iterable[str], timeout: Optional[float] = None, *, return_exceptions: bool = False,
           hold_slot: bool = False) -> list[Any]: ...


def gather(jobs: Iterable[str], timeout: Optional[float] = None, *, return_exceptions: bool = False,
           hold_slot: bool = False) -> list[Any]:
    """Waits for all of these jobs, and returns their results in the same order.

    The first that has not completed raises as `JobId.result` does, once it has ended, unless with
    ``return_exceptions`` the exceptions stand among the results.
    """
    from . import waiting

    may_wait(hold_slot)
    wanted, started = list(jobs), time.monotonic()
    place = place_of(wanted)
    found: dict[str, Any] = {}
    for job, line in waiting.ends(wanted, timeout, place):
        try:
            found[job] = value(with_record(told(job, line), seconds_left(timeout, started), place))
        except Exception as error:
            if not return_exceptions:
                raise
            found[job] = error
    return [found[job] for job in wanted]


@overload
async def agather(jobs: Iterable[JobId[R]], timeout: Optional[float] = None, *, return_exceptions: Literal[False] = False,
                  hold_slot: bool = False) -> list[R]: ...


@overload
async def agather(jobs: Iterable[str], timeout: Optional[float] = None, *, return_exceptions: bool = False,
                  hold_slot: bool = False) -> list[Any]: ...


async def agather(jobs: Iterable[str], timeout: Optional[float] = None, *, return_exceptions: bool = False,
                  hold_slot: bool = False) -> list[Any]:
    """As `gather`; other tasks of the event loop go on meanwhile."""
    from . import waiting

    may_wait(hold_slot)
    wanted, started = list(jobs), time.monotonic()
    place = place_of(wanted)
    found: dict[str, Any] = {}
    async for job, line in waiting.aends(wanted, timeout, place):
        try:
            found[job] = value(await awith_record(told(job, line), seconds_left(timeout, started), place))
        except Exception as error:
            if not return_exceptions:
                raise
            found[job] = error
    return [found[job] for job in wanted]
