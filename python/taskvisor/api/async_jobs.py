"""The routes for jobs. Made of `jobs` by the tests."""

from __future__ import annotations

from ..client.job_info import JobInfo
from ..protocol import values
from .base import AsyncAsking, given, path
from .found import Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Literal, Optional, Union

    from . import answers


class AsyncJobs(AsyncAsking):
    """Looks at jobs, and changes them."""

    async def job(self, job: str) -> JobInfo:
        """The job, whole: with its data, its result and its history. `NoSuchJob` if there is none."""
        return JobInfo(await self._ask("GET", path("jobs", job)))

    async def jobs(self, *, state: Union[answers.JobState, Sequence[answers.JobState], None] = None,
                   queue: Optional[str] = None, class_name: Optional[str] = None, group: Optional[str] = None,
                   recurring: Optional[str] = None, tag: Optional[str] = None, tracked: Optional[bool] = None,
                   since: Union[str, int, None] = None, until: Union[str, int, None] = None,
                   id_prefix: Optional[str] = None, after: Optional[str] = None, limit: int = 100) -> list[JobInfo]:
        """The jobs that match all of this, the newest first and without their data; `limit` 0 = all of them.

        `since` and `until` are times as text or in milliseconds since 1970, of the end of a job, or of its put while it
        has not ended. `after` goes on after a job of an earlier list.
        """
        route = path("jobs", state=state, queue=queue, class_=class_name, group=group, recurring=recurring, tag=tag,
                     tracked=tracked, since=since, until=until, id_prefix=id_prefix, after=after, limit=limit)
        return [JobInfo(record) for record in await self._ask("GET", route)]

    async def search(self, words: str, *, state: Union[answers.JobState, Sequence[answers.JobState], None] = None,
                     queue: Optional[str] = None, class_name: Optional[str] = None, tag: Optional[str] = None,
                     since: Union[str, int, None] = None, until: Union[str, int, None] = None, after: Optional[str] = None,
                     limit: int = 100) -> Found:
        """The jobs that have each of these words in id, class, queue, tags, title or error; ``class:mail.*`` looks in one.

        It looks at 10,000 jobs, the newest of those that match the rest. If more are there, `Found.next` is the `after` of
        the next search.
        """
        route = path("jobs", q=words, state=state, queue=queue, class_=class_name, tag=tag, since=since, until=until,
                     after=after, limit=limit)
        reply = await self._reply(route)
        return Found([JobInfo(record) for record in reply.value], *(reply.cut or (None, None)))

    async def count(self, *, state: Union[answers.JobState, Sequence[answers.JobState], None] = None,
                    queue: Optional[str] = None, class_name: Optional[str] = None, group: Optional[str] = None,
                    tag: Optional[str] = None, since: Union[str, int, None] = None, until: Union[str, int, None] = None,
                    words: Optional[str] = None, limit: Optional[int] = None) -> answers.JobCounts:
        """How many jobs match all of this, by state, and which failed first: of the newest 100,000, or of `limit`.

        Those of a batch have the tag ``batch:NAME``; those with `words` are counted among 10,000.
        """
        route = path("count", state=state, queue=queue, class_=class_name, group=group, tag=tag, since=since, until=until,
                     q=words, limit=limit)
        found: answers.JobCounts = await self._ask("GET", route)
        return found

    async def ids(self, prefix: str) -> list[str]:
        """The first ten ids that begin so."""
        found: list[str] = await self._ask("GET", path("ids", prefix))
        return found

    async def logs(self, job: str, *, start: Optional[int] = None, limit: Optional[int] = None, tail: Optional[int] = None,
                   stream: Optional[Literal["stdout", "stderr"]] = None, attempt: Optional[int] = None,
                   since: Union[str, int, None] = None, until: Union[str, int, None] = None) -> str:
        """What the job has printed so far: `limit` bytes from the offset `start` on, of them the last `tail` lines."""
        route = path("jobs", job, "logs", from_=start, limit=limit, tail=tail, stream=stream, attempt=attempt, since=since,
                     until=until)
        return await self._text(route)

    async def picture(self, job: str) -> answers.Picture:
        """What the processes of a running job do now: states, where in the kernel they wait, open files."""
        found: answers.Picture = await self._ask("GET", path("jobs", job, "picture"))
        return found

    async def before(self, job: str) -> int:
        """How many waiting jobs of its queue come before it, counted up to 1000."""
        found: answers.Number = await self._ask("GET", path("jobs", job, "before"))
        return found["count"]

    async def cancel(self, jobs: Sequence[str], *, dependents: bool = False,
                     reason: Optional[str] = None) -> list[answers.CancelAnswer]:
        """Cancels up to 10,000 jobs, with `dependents` all that wait for them, too; says at once what becomes of each.

        `JobId.cancel` cancels one and waits until its processes have ended.
        """
        order = given(jobs=list(map(str, jobs)), dependents=dependents or None, reason=reason)
        found: list[answers.CancelAnswer] = await self._ask("POST", path("cancel"), order)
        return found

    async def retry(self, job: str) -> None:
        """Puts a job that has ended back to waiting."""
        await self._ask("POST", path("jobs", job, "retry"), again=False)

    async def depend_on(self, job: str, others: Sequence[str]) -> answers.JobState:
        """Has a job that does not run wait for these, too; returns the state that it then has."""
        found: answers.State = await self._ask("POST", path("jobs", job, "depends", "on"), {"jobs": list(map(str, others))})
        return found["state"]

    async def depend_off(self, job: str, others: Optional[Sequence[str]] = None) -> answers.JobState:
        """Has a job no longer wait for these, or for any; returns the state that it then has."""
        order = given(jobs=None if others is None else list(map(str, others)))
        found: answers.State = await self._ask("POST", path("jobs", job, "depends", "off"), order or None)
        return found["state"]

    async def set_priority(self, job: str, priority: int) -> None:
        """Gives a job another priority: the higher runs first."""
        await self._ask("POST", path("jobs", job, "priority"), {"priority": priority})

    async def set_data(self, job: str, fence: int, data: Any) -> None:
        """Gives a running job other data, from its next attempt or queue on. `fence` is that of its lease."""
        await self._ask("POST", path("jobs", job, "data"), {"fence": fence, "data": values.to_json(data)})

    async def tag(self, job: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> list[str]:
        """Adds tags and removes others; returns all that the job now has."""
        found: answers.Tags = await self._ask("POST", path("jobs", job, "tags"), {"add": list(add), "remove": list(remove)})
        return found["tags"]

    async def track(self, job: str) -> None:
        """Marks a job, so that `jobs(tracked=True)` lists it."""
        await self._ask("POST", path("jobs", job, "track"))

    async def untrack(self, job: str) -> None:
        """Takes that mark away."""
        await self._ask("POST", path("jobs", job, "untrack"))

    async def discard(self, job: str) -> None:
        """Removes a job that has ended and for which no other waits."""
        await self._ask("POST", path("jobs", job, "discard"), again=False)

    async def failed(self, *, class_name: Optional[str] = None, queue: Optional[str] = None,
                     since: Union[str, int, None] = None) -> list[answers.FailureGroup]:
        """The groups of failures, the largest first, 1000 at most."""
        found: list[answers.FailureGroup] = await self._ask("GET", path("failed", class_=class_name, queue=queue, since=since))
        return found

    async def sweep(self, act: Literal["retry", "discard"], state: Literal["complete", "failed", "held", "canceled"], *,
                    group: Optional[str] = None, class_name: Optional[str] = None, queue: Optional[str] = None,
                    since: Union[str, int, None] = None, limit: Optional[int] = None, dry_run: bool = False,
                    after: Optional[int] = None) -> answers.BulkAnswer:
        """Retries or discards all ended jobs that match, a stretch of them at a time.

        While the answer has a `next`, ask again with it as `after`.
        """
        order = given(act=act, state=state, group=group, class_=class_name, queue=queue, since=since, limit=limit,
                      dry_run=dry_run or None, after=after)
        found: answers.BulkAnswer = await self._ask("POST", path("failed"), order, again=False)
        return found

    async def why_job(self, job: str) -> answers.Why:
        """Why the job waits, or what it does: the facts behind `taskvisor why`."""
        found: answers.Why = await self._ask("GET", path("why", "job", job))
        return found
