"""A job as the supervisor shows it, and the exceptions that its end becomes."""

from __future__ import annotations

from ..errors import SupervisorError
from ..protocol import values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional


class JobInfo:
    """A job as it was when it was looked at. `record` has all fields, as the page on the API lists them.

    >>> info = JobInfo({"id": "7", "state": "complete", "queue": "mail", "class": "mail.Send", "result": 5})
    >>> info.state, info.result, info.failure, info
    ('complete', 5, None, <JobInfo 7 mail.Send complete>)
    """

    __slots__ = ("record",)

    #: All that the supervisor says of it.
    record: dict[str, Any]

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record

    @property
    def id(self) -> str:
        """Its id."""
        return str(self.record["id"])

    @property
    def state(self) -> str:
        """One of waiting, delayed, depends, running, canceling, complete, failed, held, canceled."""
        return str(self.record["state"])

    @property
    def queue(self) -> str:
        """The queue in which it waits or waited."""
        return str(self.record.get("queue", ""))

    @property
    def class_name(self) -> str:
        """The name of its class."""
        return str(self.record.get("class", ""))

    @property
    def attempt(self) -> int:
        """Attempts spent or under way."""
        return int(self.record.get("attempt", 0))

    @property
    def data(self) -> Any:
        """The data that was put; None if it was no JSON."""
        return values.from_json(self.record.get("data"))

    @property
    def result(self) -> Any:
        """The return value of the job. Raises `ResultNotKept` if the worker could not keep it."""
        found = self.record.get("result")
        if isinstance(found, dict) and found.get(values.MARK) == values.NOT_KEPT:
            raise ResultNotKept(f"job {self.id} is complete, but has no result: {found.get('value')}")
        return values.from_json(found)

    @property
    def progress(self) -> Optional[dict[str, Any]]:
        """What it last reported: `fraction` and `message`."""
        return self.record.get("progress")

    @property
    def failure(self) -> Optional[dict[str, Any]]:
        """Why it failed, is held or waits for a retry: `group`, `message` and `trace`."""
        return self.record.get("failure")

    @property
    def forensics(self) -> Optional[dict[str, Any]]:
        """How its latest attempt ended: exit code or signal, usage, what was left running.

        Straight from a Redis it is a `SupervisorError`: a supervisor has to be asked.
        """
        if "forensics" in self.record.get("lacks", ()):
            raise SupervisorError(f"the forensics of job {self.id} cannot be read straight from a Redis: ask a supervisor, by "
                                  "taskvisor.Client or taskvisor job show")
        return self.record.get("forensics")

    @property
    def history(self) -> list[dict[str, Any]]:
        """What happened before, oldest first."""
        return list(self.record.get("history") or ())

    def __repr__(self) -> str:
        return f"<JobInfo {self.id} {self.class_name} {self.state}>"


class ResultNotKept(Exception):
    """The job is complete, but what it returned could not be kept. The message says why.

    >>> raise ResultNotKept("job 7 is complete, but has no result: the result is not JSON: result: type")
    Traceback (most recent call last):
    ...
    taskvisor.ResultNotKept: job 7 is complete, but has no result: the result is not JSON: result: type
    """


class JobFailed(Exception):
    """The job has failed, or is held: it has no result.

    >>> raise JobFailed(JobInfo({"id": "7", "state": "failed", "failure": {"group": "ValueError", "message": "no"}}))
    Traceback (most recent call last):
    ...
    taskvisor.JobFailed: job 7 has failed: ValueError: no
    """

    def __init__(self, info: JobInfo) -> None:
        super().__init__(info)
        failure = info.failure or {}
        #: The job as it was then.
        self.info = info
        #: Its id.
        self.job: str = info.id
        #: `failed`, `held` or `canceled`.
        self.state: str = info.state
        #: The group of the failure: the name of the exception, or how its process ended.
        self.group: str = str(failure.get("group") or "")
        #: The message of the exception.
        self.message: str = str(failure.get("message") or "")
        #: The traceback, if its worker has sent one.
        self.trace: Optional[str] = failure.get("trace")
        #: How its latest attempt ended; None straight from a Redis.
        self.forensics: Optional[dict[str, Any]] = info.record.get("forensics")

    def __str__(self) -> str:
        how = {"failed": "has failed", "held": "is held"}.get(self.state, f"was {self.state}")
        why = ": ".join(word for word in (self.group, self.message) if word)
        return f"job {self.job} {how}{': ' if why else ''}{why}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.info,)


class JobCanceled(JobFailed):
    """The job was canceled: it has no result.

    >>> raise JobCanceled(JobInfo({"id": "7", "state": "canceled"}))
    Traceback (most recent call last):
    ...
    taskvisor.JobCanceled: job 7 was canceled
    """


# Users know them as taskvisor.JobFailed and so on, in tracebacks too.
for _public in (JobInfo, JobFailed, JobCanceled, ResultNotKept):
    _public.__module__ = "taskvisor"
