"""The running job: its data, which code belongs to it, and `progress`.

Nothing here knows the mode of the worker. What a job needs of its worker is the protocol `Runtime`.
"""

from __future__ import annotations

import math
import time
import warnings
from contextvars import ContextVar
from threading import Thread, current_thread

from ..protocol import frames, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any, Optional, Protocol, Union
else:
    Protocol = object


#: Time since the supervisor was last asked, and for which its answer is waited for, in seconds, when a job asks how much
#: of its time is left.
_ASK_AGAIN = 1.0
_PATIENCE = 0.25


class Runtime(Protocol):
    """The functions of the worker that a job uses."""

    def send(self, line: bytes) -> None:
        """Sends a frame."""

    def send_now(self, line: bytes) -> None:
        """Sends a frame that must not be lost if the process dies at once."""

    def call(self, verb: str, arguments: dict[str, Any]) -> Any:
        """Makes a call to the supervisor and waits for the answer."""

    async def call_async(self, verb: str, arguments: dict[str, Any]) -> Any:
        """Makes a call to the supervisor; other jobs go on until the answer comes."""

    def stopped(self, job: Job, patience: float) -> Optional[float]:
        """For how many seconds the job's process did not run so far; None if nobody says so within these seconds."""


class Job:
    """A job as its function sees it, from `current_job`.

    >>> Job({"id": "7", "fence": 1, "class": "mail.Send", "queue": "mail", "data": [1], "attempt": 2}).attempt
    2
    """

    __slots__ = ("id", "class_name", "queue", "attempt", "priority", "tags", "_data", "_marked", "retries", "time_limit",
                 "soft_time_limit", "grace", "cwd", "fence", "started", "canceled", "stopped", "_asked", "_killed_at", "ended", "runtime", "partial_lines", "scope", "_put_at",
                 "__weakref__")

    #: Its id.
    id: str
    #: The name of its class.
    class_name: str
    #: The queue it was taken from.
    queue: str
    #: The number of this attempt, from 1 on.
    attempt: int
    #: Higher runs first.
    priority: int
    #: Its tags.
    tags: list[str]
    #: How often it is tried again after it has failed; None if the supervisor does not say.
    retries: Optional[int]
    #: The longest run of this attempt in seconds, from `started` on.
    time_limit: Optional[float]
    #: Seconds after which `SoftTimeLimitExceeded` is raised in the job.
    soft_time_limit: Optional[float]
    #: Seconds between SIGTERM (or a cancel) and SIGKILL, at least; None if the supervisor does not send it.
    grace: Optional[float]
    #: A directory of its own, where the pool gives one.
    cwd: Optional[str]
    #: The token of this attempt.
    fence: int
    #: When it began, on the clock of `time.monotonic`.
    started: float
    #: Seconds in which its process did not run, as far as the supervisor has said. They count towards no limit.
    stopped: float
    #: True once the job should end. For functions that run in threads, where nothing can be raised from outside.
    canceled: bool

    def __init__(self, fields: dict[str, Any], runtime: Optional[Runtime] = None) -> None:
        get = fields.get
        self.id = fields["id"]
        self.fence = fields["fence"]
        self.class_name = fields["class"]
        self.queue = get("queue", "")
        self.attempt = get("attempt", 1)
        self.priority = get("priority", 0)
        self.tags = get("tags") or []
        self.retries = get("retries")
        self.time_limit = get("time_limit")
        self.soft_time_limit = get("soft_time_limit")
        self.grace = get("grace")
        self.cwd = get("cwd")
        raw = get("raw")
        self._data: Any = get("data") if raw is None else _decode(raw)
        #: Whether it may hold values that JSON has not, which are made when it is asked for.
        self._marked = bool(get("marked"))
        self.started = time.monotonic()
        self.canceled = False
        self.stopped = 0.0
        #: When the supervisor was last asked for that.
        self._asked = self.started
        self._killed_at: Optional[float] = None
        self.ended: bool = False
        self.runtime: Optional[Runtime] = runtime
        self.partial_lines: dict[str, str] = {}
        #: What sentry-sdk keeps of it while it runs.
        self.scope: Any = None
        self._put_at: Optional[datetime] = None

    @property
    def data(self) -> Any:
        """The data that was put: any JSON value, or bytes.

        >>> Job({"id": "7", "fence": 1, "class": "c"}).data = 5
        Traceback (most recent call last):
        ...
        AttributeError: the data of a job cannot be replaced: put another job with the new data
        """
        if self._marked:
            self._data, self._marked = values.from_json(self._data), False
        return self._data

    @data.setter
    def data(self, _value: Any) -> None:
        raise AttributeError("the data of a job cannot be replaced: put another job with the new data")

    @property
    def put_at(self) -> datetime:
        """When it was put, in UTC. Asks the supervisor the first time: a short call."""
        if self._put_at is None:
            from datetime import datetime, timedelta, timezone

            if self.runtime is None:
                raise RuntimeError(f"no worker runs job {self.id}: nobody knows when it was put")
            shown = self.runtime.call("job", {"id": self.id})
            self._put_at = datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=shown["put_at_ms"])
        return self._put_at

    @property
    def time_left(self) -> Optional[float]:
        """Seconds until the time limit, or None without one. After SIGTERM or a cancel: seconds until SIGKILL.

        >>> job = Job({"id": "7", "fence": 1, "class": "c", "time_limit": 60, "grace": 10})
        >>> job.time_left <= 60
        True
        >>> job.must_end()
        >>> 9 < job.time_left <= 10
        True
        """
        if self._killed_at is not None:
            return self._killed_at - time.monotonic()
        if self.time_limit is None:
            return None
        if time.monotonic() - self._asked > _ASK_AGAIN:
            self.ask_stopped(_PATIENCE)
        return self.time_limit - self.ran()

    def ran(self) -> float:
        """Seconds since it began, without those in which its process was stopped, as far as that is known."""
        return time.monotonic() - self.started - self.stopped

    def ask_stopped(self, patience: float) -> bool:
        """Asks the supervisor for how long the process was stopped; whether it has answered within these seconds."""
        self._asked = time.monotonic()
        if self.runtime is None or self.ended:
            return True
        stopped = self.runtime.stopped(self, patience)
        self.stopped = max(self.stopped, stopped or 0.0)
        return stopped is not None

    def must_end(self) -> None:
        """Starts the grace period of the job: called by the worker on SIGTERM or a cancel. Later calls change nothing."""
        self.canceled = True
        if self._killed_at is None and self.grace is not None:
            self._killed_at = time.monotonic() + self.grace

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.class_name} attempt {self.attempt}>"


def _decode(raw: Union[str, dict[str, str]]) -> bytes:
    """Data that is not JSON.

    >>> _decode("hello"), _decode({"b64": "AP8="})
    (b'hello', b'\\x00\\xff')
    """
    if isinstance(raw, str):
        return raw.encode()
    import base64

    return base64.b64decode(raw["b64"])


#: The job of this task or thread, in a worker with several jobs at a time.
of_task: ContextVar[Optional[Job]] = ContextVar("taskvisor_job", default=None)


class _Process:
    """The job of the process, in a worker with one job at a time: its threads have no context, but belong to it too."""

    job: Optional[Job] = None


of_process: _Process = _Process()

#: The jobs of threads that still run although their job has ended. Kept by the worker.
of_left_threads: dict[Thread, Job] = {}


def running() -> Optional[Job]:
    """The job to which this code belongs, if any. It may have ended, if this is a thread that it has left."""
    job = of_task.get()
    if job is None and of_left_threads:
        job = of_left_threads.get(current_thread())
    return job or of_process.job


def current_job() -> Job:
    """Returns the job that runs this code; a RuntimeError outside of one.

    >>> current_job()
    Traceback (most recent call last):
    ...
    RuntimeError: no job runs here: current_job() is for code that a worker runs
    """
    job = running()
    if job is None:
        raise RuntimeError("no job runs here: current_job() is for code that a worker runs")
    return job


def progress(fraction: Optional[float] = None, message: Optional[str] = None) -> None:
    """Reports the progress of the job: a fraction from 0 to 1, a message, or both. The latest is kept.

    A fraction beyond these is reported as 0 or 1, with a warning: no job fails for a report. Percents are divided by 100.

    Outside of a job it does nothing, so that the function can still be called plainly.

    >>> progress(0.5, "rendered")
    """
    fields: dict[str, Any] = {}
    if fraction is not None:
        if math.isnan(fraction):
            raise ValueError("a fraction is a number from 0 to 1, not nan")
        fields["fraction"] = min(max(float(fraction), 0.0), 1.0)
        # Sums of fractions may be off by the last digit.
        if not -1e-9 <= fraction <= 1 + 1e-9:
            warnings.warn(f"progress({fraction!r}): a fraction is a number from 0 to 1; {fields['fraction']:g} is reported",
                          stacklevel=2)
    if message is not None:
        fields["message"] = str(message)[:4096]
    job = running()
    if job is not None and job.runtime is not None and not job.ended:
        job.runtime.send(frames.frame("progress", {"job": job.id, **fields}))
