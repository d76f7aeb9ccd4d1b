"""The routes for queues, options and recurring jobs. Made of `queues` by the tests."""

from __future__ import annotations

from .base import AsyncAsking, given, path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal, Optional, Union

    from ..client.new_job import NewJob
    from . import answers


class AsyncQueues(AsyncAsking):
    """Looks at queues, options and recurring jobs, and changes them."""

    async def queues(self) -> dict[str, answers.QueueCounts]:
        """All queues, each with its jobs by state and its figures of today."""
        found: dict[str, answers.QueueCounts] = await self._ask("GET", path("queues"))
        return found

    async def queue_stats(self, queue: str, day: Optional[str] = None) -> answers.QueueDay:
        """How long jobs of a queue waited and ran on a day, as ``2026-11-21``, else today."""
        found: answers.QueueDay = await self._ask("GET", path("queues", queue, "stats", day=day))
        return found

    async def pause_queue(self, queue: str, reason: Optional[str] = None) -> None:
        """Has no jobs of the queue begin until it is resumed."""
        await self._ask("POST", path("queues", queue, "pause"), given(reason=reason))

    async def resume_queue(self, queue: str) -> None:
        """Ends the pause of a queue."""
        await self._ask("POST", path("queues", queue, "resume"))

    async def forget_queue(self, queue: str, *, discard: bool = False, after: Optional[int] = None) -> answers.BulkAnswer:
        """Removes an empty queue with its statistics; with `discard` its ended jobs first, a stretch at a time."""
        order = given(discard=discard or None, after=after)
        found: answers.BulkAnswer = await self._ask("POST", path("queues", queue, "forget"), order, again=False)
        return found

    async def classes(self, *, class_name: Optional[str] = None, day: Optional[str] = None,
                      days: Optional[int] = None) -> list[answers.ClassDay]:
        """How the jobs of classes fared on days: the last is `day`, else today."""
        found: list[answers.ClassDay] = await self._ask("GET", path("classes", class_=class_name, day=day, days=days))
        return found

    async def options(self) -> list[answers.OptionShown]:
        """The options in force, for all queues and for single ones."""
        found: list[answers.OptionShown] = await self._ask("GET", path("options"))
        return found

    async def set_option(self, name: str, value: Union[str, int, float], queue: Optional[str] = None) -> None:
        """Sets an option, for all queues or for one."""
        await self._ask("POST", path("options", name), given(value=str(value), queue=queue))

    async def unset_option(self, name: str, queue: Optional[str] = None) -> None:
        """Lets an option have its default again."""
        await self._ask("POST", path("options", name, "unset"), given(queue=queue))

    async def load_options(self, all: Optional[Mapping[str, str]] = None,
                           queues: Optional[Mapping[str, Mapping[str, str]]] = None, *,
                           others: Optional[Mapping[str, str]] = None, clear: bool = False) -> None:
        """Sets many options, all or none; with `clear` what is not named gets its default again."""
        options = given(all=all, queues=queues, others=others)
        await self._ask("POST", path("options"), given(options=options, clear=clear or None))

    async def recurring(self) -> list[answers.RecurringRecord]:
        """The recurring jobs, by name."""
        found: list[answers.RecurringRecord] = await self._ask("GET", path("recurring"))
        return found

    async def recurring_job(self, name: str) -> answers.RecurringRecord:
        """A recurring job, and when it is due."""
        found: answers.RecurringRecord = await self._ask("GET", path("recurring", name))
        return found

    async def put_recurring(self, name: str, job: NewJob, *, every: Optional[float] = None, offset: Optional[float] = None,
                            cron: Optional[str] = None, zone: Optional[str] = None,
                            overlap: Optional[Literal["skip", "allow"]] = None, catch_up: Optional[float] = None,
                            backlog: Optional[int] = None) -> answers.RecurringRecord:
        """Makes a recurring job or changes it: `every` so many seconds, or by a line of `cron`.

            client.put_recurring("nightly", report.prepare(), cron="30 2 * * *", zone="Europe/Vienna")
        """
        if (every is None) == (cron is None):
            raise ValueError("a recurring job needs every= or cron=, and not both")
        schedule: dict[str, Any] = ({"cron": given(line=cron, zone=zone)} if every is None
                                    else {"every": given(interval=every, offset=offset)})
        order = given(schedule=schedule, job=job.fields(), overlap=overlap, catch_up=catch_up, backlog=backlog)
        found: answers.RecurringRecord = await self._ask("POST", path("recurring", name), order)
        return found

    async def run_recurring(self, name: str) -> answers.LatestJob:
        """Puts the job of a recurring one now."""
        found: answers.LatestJob = await self._ask("POST", path("recurring", name, "run"), again=False)
        return found

    async def pause_recurring(self, name: str) -> None:
        """Has it put no jobs until it is resumed."""
        await self._ask("POST", path("recurring", name, "pause"))

    async def resume_recurring(self, name: str) -> None:
        """Ends its pause."""
        await self._ask("POST", path("recurring", name, "resume"))

    async def remove_recurring(self, name: str) -> None:
        """Ends it; the jobs that it has put stay."""
        await self._ask("POST", path("recurring", name, "remove"), again=False)
