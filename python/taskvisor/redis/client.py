"""`RedisClient`: puts into a Redis and waits for jobs there, without a supervisor."""

from __future__ import annotations

from ..client import many, stand_in
from ..client.job_info import JobInfo
from ..client.new_job import NewJob
from ..client.putting import aput_at, of_place, put_at
from .place import RedisPlace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Optional

    from ..api import answers
    from ..client.job_id import JobId


class RedisClient:
    """A client of the jobs in a Redis, by the URL that ``taskvisor start -b`` takes.

    Its ids do what all do: `result`, `aresult`, `wait`, `cancel`, `info`; `gather` and `as_completed` take them. It can be
    shared by threads and event loops.
    """

    def __init__(self, url: str) -> None:
        #: Where jobs are put, for `options(client=...)`.
        self.place: RedisPlace = RedisPlace(url)

    def __repr__(self) -> str:
        return f"<RedisClient of {self.place.link.name}>"

    if not TYPE_CHECKING:
        def __getattr__(self, name):
            from ..api.client import Client

            if name.startswith("_") or not hasattr(Client, name):
                raise AttributeError(f"RedisClient has no attribute {name!r}")
            raise AttributeError(f"RedisClient has no {name}(): that needs a supervisor; ask one on this Redis, by "
                                 "taskvisor.Client(url) or the program taskvisor")

    def use(self) -> None:
        """From now on every put and wait of this process goes there, but for those of jobs that a worker runs here."""
        stand_in.current.default = self.place

    def put(self, queue: str, class_name: str, data: Any = None, **options: Any) -> JobId[Any]:
        """Queues a job of any class, with the options of `NewJob`, and returns its id."""
        return self.put_many([NewJob(queue, class_name, data, **options)])[0]

    def put_many(self, jobs: Iterable[NewJob]) -> list[JobId[Any]]:
        """Queues jobs, all or none, and returns their ids in the same order."""
        wanted = list(jobs)
        return put_at(self.place, wanted) if wanted else []

    async def aput(self, queue: str, class_name: str, data: Any = None, **options: Any) -> JobId[Any]:
        """As `put`; other tasks of the event loop go on."""
        return (await self.aput_many([NewJob(queue, class_name, data, **options)]))[0]

    async def aput_many(self, jobs: Iterable[NewJob]) -> list[JobId[Any]]:
        """As `put_many`; other tasks of the event loop go on."""
        wanted = list(jobs)
        return await aput_at(self.place, wanted) if wanted else []

    def id(self, job: str) -> JobId[Any]:
        """The id of a job there, to wait for its result, to look at it or to cancel it."""
        return of_place(self.place, job)

    def job(self, job: str) -> JobInfo:
        """The job: all but its forensics, for which a supervisor is asked, and what only scripts of others have noted."""
        return JobInfo(self.place.record(job))

    def cancel(self, jobs: Sequence[str], *, dependents: bool = False,
               reason: Optional[str] = None) -> list[answers.CancelAnswer]:
        """Cancels jobs, with `dependents` all that wait for them, too; says at once what becomes of each."""
        found: list[Any] = self.place.cancel(jobs, dependents, reason)
        return found

    def as_completed(self, jobs: Iterable[str], timeout: Optional[float] = None) -> many.Completions[Any]:
        """The ids of these jobs as they end: ``for`` or ``async for``."""
        return many.as_completed([self.id(job) for job in jobs], timeout)
