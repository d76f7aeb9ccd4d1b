"""The routes for queues, options and recurring jobs. `async_queues` is made of this file."""

from __future__ import annotations

from .base import Asking, given, path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal, Optional, Union

    from ..client.new_job import NewJob
    from . import answers


class Queues(Asking):
    """Looks at queues, options and recurring jobs, and changes them."""

    def queues(self) -> dict[str, answers.QueueCounts]:
        """All queues, each with its jobs by state and its figures of today."""
        found: dict[str, answers.QueueCounts] = self._ask("GET", path("queues"))
        return found

    def queue_stats(self, queue: str, day: Optional[str] = None) -> answers.QueueDay:
        """How long jobs of a queue waited and ran on a day, as ``2026-11-21``, else today."""
        found: answers.QueueDay = self._ask("GET", path("queues", queue, "stats", day=day))
        return found

    def pause_queue(self, queue: str, reason: Optional[str] = None) -> None:
        """Has no jobs of the queue begin until it is resumed."""
        self._ask("POST", path("queues", queue, "pause"), given(reason=reason))

    def resume_queue(self, queue: str) -> None:
        """Ends the pause of a queue."""
        self._ask("POST", path("queues", queue, "resume"))

    def forget_queue(self, queue: str, *, discard: bool = False, after: Optional[int] = None) -> answers.BulkAnswer:
        """Removes an empty queue with its statistics; with `discard` its ended jobs first, a stretch at a time."""
        order = given(discard=discard or None, after=after)
        found: answers.BulkAnswer = self._ask("POST", path("queues", queue, "forget"), order, again=False)
        return found

    def classes(self, *, class_name: Optional[str] = None, day: Optional[str] = None,
                days: Optional[int] = None) -> list[answers.ClassDay]:
        """How the jobs of classes fared on days: the last is `day`, else today."""
        found: list[answers.ClassDay] = self._ask("GET", path("classes", class_=class_name, day=day, days=days))
        return found

    def options(self) -> list[answers.OptionShown]:
        """The options in force, for all queues and for single ones."""
        found: list[answers.OptionShown] = self._ask("GET", path("options"))
        return found

    def set_option(self, name: str, value: Union[str, int, float], queue: Optional[str] = None) -> None:
        """Sets an option, for all queues or for one."""
        self._ask("POST", path("options", name), given(value=str(value), queue=queue))

    def unset_option(self, name: str, queue: Optional[str] = None) -> None:
        """Lets an option have its default again."""
        self._ask("POST", path("options", name, "unset"), given(queue=queue))

    def load_options(self, all: Optional[Mapping[str, str]] = None,
                     queues: Optional[Mapping[str, Mapping[str, str]]] = None, *,
                     others: Optional[Mapping[str, str]] = None, clear: bool = False) -> None:
        """Sets many options, all or none; with `clear` what is not named gets its default again."""
        options = given(all=all, queues=queues, others=others)
        self._ask("POST", path("options"), given(options=options, clear=clear or None))

    def recurring(self) -> list[answers.RecurringRecord]:
        """The recurring jobs, by name."""
        found: list[answers.RecurringRecord] = self._ask("GET", path("recurring"))
        return found

    def recurring_job(self, name: str) -> answers.RecurringRecord:
        """A recurring job, and when it is due."""
        found: answers.RecurringRecord = self._ask("GET", path("recurring", name))
        return found

    def put_recurring(self, name: str, job: NewJob, *, every: Optional[float] = None, offset: Optional[float] = None,
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
        found: answers.RecurringRecord = self._ask("POST", path("recurring", name), order)
        return found

    def run_recurring(self, name: str) -> answers.LatestJob:
        """Puts the job of a recurring one now."""
        found: answers.LatestJob = self._ask("POST", path("recurring", name, "run"), again=False)
        return found

    def pause_recurring(self, name: str) -> None:
        """Has it put no jobs until it is resumed."""
        self._ask("POST", path("recurring", name, "pause"))

    def resume_recurring(self, name: str) -> None:
        """Ends its pause."""
        self._ask("POST", path("recurring", name, "resume"))

    def remove_recurring(self, name: str) -> None:
        """Ends it; the jobs that it has put stay."""
        self._ask("POST", path("recurring", name, "remove"), again=False)
