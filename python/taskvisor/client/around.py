"""What runs around each job of a process: `Middleware` of the application, and the log record of an exception.

sentry-sdk needs nothing of the application: it captures the log record, and each job has a scope of its own.
"""

from __future__ import annotations

import sys

from ..errors import Interrupted, Retry, Snooze, SoftTimeLimitExceeded, TimeLimitExceeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Callable, Optional, TypeVar

    from .running_job import Job

    M = TypeVar("M", bound="Middleware")

#: Seconds for sentry-sdk to send what it has before the process of a single job ends.
_FLUSH_SECONDS = 2.0


class Middleware:
    """Code around each job of this process. Override what you need, and register it with `middleware`.

    The methods run where the job runs: in its thread or task, with its context variables, within its limits. The soft time
    limit, SIGTERM and a cancel do not interrupt `after` and `failure`. In the mode coroutine they must not block.
    """

    def before(self, job: Job) -> None:
        """Before the function is called. An exception ends the job as one of its own would."""

    def after(self, job: Job, result: Any) -> None:
        """After the function has returned. An exception is logged: the work is done."""

    def failure(self, job: Job, error: BaseException) -> None:
        """After the job, or `before`, has raised; also `Retry`, `Snooze` and `Interrupted`. An exception is logged."""


#: In the order in which `before` is called; `after` and `failure` go the other way.
_all: list[Middleware] = []


def middleware(one: M) -> M:
    """Has these methods called around each job of this process from now on. Call it where the jobs are defined.

    >>> class Timing(Middleware):
    ...     def before(self, job):
    ...         self.started = time.monotonic()
    >>> timing = middleware(Timing())
    >>> _all.remove(timing)
    """
    if not isinstance(one, Middleware):
        raise TypeError(f"middleware() takes an object of a class that inherits Middleware, not {one!r}")
    _all.append(one)
    return one


def begin(job: Job) -> None:
    """Called before the function of the job, in its context."""
    if "sentry_sdk" in sys.modules:
        _enter_scope(job)
    for one in _all:
        one.before(job)


def end(job: Job, result: Any) -> None:
    """Called after the function of the job has returned."""
    for one in reversed(_all):
        _safely(job, one.after, result)
    _leave_scope(job)


def fail(job: Job, error: BaseException) -> None:
    """Called after the job has raised: logs the exception if it is a failure."""
    is_asked = isinstance(error, (Retry, Snooze, Interrupted)) or _is_cancellation(error)
    if not is_asked or isinstance(error, (TimeLimitExceeded, SoftTimeLimitExceeded)):
        _log(job, error)
    for one in reversed(_all):
        _safely(job, one.failure, error)
    _leave_scope(job)


def flush() -> None:
    """Lets sentry-sdk send what it has: a process for a single job ends at once."""
    sentry = sys.modules.get("sentry_sdk")
    if sentry is not None:
        try:
            sentry.flush(timeout=_FLUSH_SECONDS)
        except Exception as error:
            print(f"sentry_sdk.flush raised {error!r}", file=sys.stderr)


def _safely(job: Job, method: Callable[[Job, Any], None], argument: Any) -> None:
    try:
        method(job, argument)
    except KeyboardInterrupt:
        raise
    except BaseException:  # SystemExit and cancellations of the application's own, too: the work is done.
        import logging

        logging.getLogger("taskvisor").exception("middleware %r failed after job %s", method, job.id)


def _log(job: Job, error: BaseException) -> None:
    import logging

    about = {"id": job.id, "class": job.class_name, "queue": job.queue, "attempt": job.attempt}
    logger = logging.getLogger("taskvisor.jobs")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # Where nothing is configured, logging prints it to stderr.
    try:
        logger.error("job %s (%s) has failed", job.id, job.class_name, extra={"taskvisor": about},
                     exc_info=(type(error), error, _own_frames(error.__traceback__)))
    except Exception as second:  # A handler is code of the application.
        print(f"failed to log the exception of job {job.id}: {second!r}", file=sys.stderr)


def _own_frames(trace: Optional[TracebackType]) -> Optional[TracebackType]:
    """The trace from the first frame of the application on."""
    first = trace
    while first is not None and str(first.tb_frame.f_globals.get("__name__", "")).partition(".")[0] == "taskvisor":
        first = first.tb_next
    return first or trace


def _is_cancellation(error: BaseException) -> bool:
    asyncio: Any = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(error, asyncio.CancelledError)


def _enter_scope(job: Job) -> None:
    """Gives the job a scope of its own: breadcrumbs and tags of one job are none of the next."""
    try:
        manager = sys.modules["sentry_sdk"].isolation_scope()
        scope = manager.__enter__()
        job.scope = manager
        scope.clear_breadcrumbs()
        scope.set_transaction_name(job.class_name, source="task")
    except Exception:
        pass  # A version before 2.0, or one that is not initialized: the log record is captured all the same.


def _leave_scope(job: Job) -> None:
    manager, job.scope = job.scope, None
    if manager is not None:
        try:
            manager.__exit__(None, None, None)
        except Exception:
            pass  # The job has changed the context. It is dropped with the job.
