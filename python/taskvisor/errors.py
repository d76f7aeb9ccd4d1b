"""The exceptions of the package: those that a job raises, and those that are raised in it.

Nothing here knows how they reach the supervisor.
"""

from __future__ import annotations

from .checks import seconds


class Retry(Exception):
    """Ends this attempt; the job is tried again ``after`` seconds. The attempt is spent.

    >>> raise Retry(after=30, reason="the server is busy")
    Traceback (most recent call last):
    ...
    taskvisor.Retry: the server is busy
    """

    def __init__(self, after: float, reason: str = "") -> None:
        super().__init__(reason)
        self.after: float = seconds("after", after)


class Snooze(Exception):
    """Ends this attempt; the job comes back ``after`` seconds. The attempt is not spent.

    >>> raise Snooze(after=60)
    Traceback (most recent call last):
    ...
    taskvisor.Snooze
    """

    def __init__(self, after: float, reason: str = "") -> None:
        super().__init__(reason)
        self.after: float = seconds("after", after)


class Fail(Exception):
    """Ends the job for good: it is not tried again.

    >>> raise Fail("no such user")
    Traceback (most recent call last):
    ...
    taskvisor.Fail: no such user
    """


class Interrupted(BaseException):
    """Raised inside a running job when it has to end: it was canceled, or the worker stops.

    It is no ``Exception``, so that ``except Exception`` in a job does not swallow it. Clean up in ``finally``:

    >>> try:
    ...     raise Interrupted("asked to end")
    ... except Exception:
    ...     print("never seen")
    ... finally:
    ...     print("cleaned up")
    Traceback (most recent call last):
    ...
    taskvisor.Interrupted: asked to end
    """


class TimeLimitExceeded(Interrupted):
    """Raised inside a running job when its time is over. An `Interrupted`, so ``except Interrupted`` sees both.

    >>> issubclass(TimeLimitExceeded, Interrupted), issubclass(TimeLimitExceeded, Exception)
    (True, False)
    """


class SoftTimeLimitExceeded(Interrupted):
    """Raised inside a running job when its time is nearly over. One that goes on meets `TimeLimitExceeded` later.

    >>> issubclass(SoftTimeLimitExceeded, Interrupted), issubclass(SoftTimeLimitExceeded, TimeLimitExceeded)
    (True, False)
    """


class EventLoopBlocked(RuntimeError):
    """Given to `Middleware.failure` for a job that kept the event loop of its worker from turning. Nobody raises it.

    >>> issubclass(EventLoopBlocked, Exception)
    True
    """


class PutError(Exception):
    """A job could not be queued. The message says what was tried and what to do.

    >>> raise PutError("failed to put 1 job: the queue is closed")
    Traceback (most recent call last):
    ...
    taskvisor.PutError: failed to put 1 job: the queue is closed
    """


class SupervisorError(Exception):
    """A supervisor could not be asked, or has refused. The message says why and what to do.

    >>> raise SupervisorError("nobody listens on /run/taskvisor/ctl.sock")
    Traceback (most recent call last):
    ...
    taskvisor.SupervisorError: nobody listens on /run/taskvisor/ctl.sock
    """

    def __init__(self, why: str, code: int = 0) -> None:
        super().__init__(why, code)
        #: The HTTP status of the refusal; 0 if there was no answer.
        self.code = code

    def __str__(self) -> str:
        return str(self.args[0])


class NoSuchJob(SupervisorError, LookupError):
    """No job has this id: it was never put, or is not kept any more.

    >>> raise NoSuchJob("no job has the id '7'", 404)
    Traceback (most recent call last):
    ...
    taskvisor.NoSuchJob: no job has the id '7'
    """


class DataMismatch(TypeError):
    """The data of a job does not fit the signature of its function: it fails for good.

    Also a value whose type this process has not loaded, as in a result or in `JobInfo.data`.
    """


# Users know them as taskvisor.Retry and so on, in tracebacks too.
for _public in (Retry, Snooze, Fail, Interrupted, TimeLimitExceeded, SoftTimeLimitExceeded, PutError, SupervisorError,
                NoSuchJob, EventLoopBlocked, DataMismatch):
    _public.__module__ = "taskvisor"
