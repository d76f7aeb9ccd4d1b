"""Runs a job and reports its end to the supervisor: without a connection, unless the job's code uses one."""

from __future__ import annotations

import base64
import sys

from ..errors import Fail, Interrupted
from ..worker import outcome
from ..worker.outcome import Ending
from .run import Run, encoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .run import Setup

#: Attributes of a job object that the end of a job writes anyway, and those made of its data at the first look.
_NOT_ITS_OWN = {"_status", "_result", "_data", "_func_name", "_instance", "_args", "_kwargs", "_success_callback",
                "_failure_callback", "_stopped_callback", "_exc_info", "_cached_result", "_dependency", "meta",
                "started_at", "ended_at", "last_heartbeat", "worker_name", "redis_server_version", "connection",
                "serializer", "log"}
#: In characters. A longer result is not sent, but written by the worker.
_LONGEST = 8 << 20
#: Until the supervisor has written the end of the job.
_KEPT_SECONDS = 86400
#: Fields of its hash that the supervisor writes.
_WRITTEN_ELSEWHERE = {"status", "started_at", "ended_at", "last_heartbeat", "worker_name", "enqueued_at", "data"}


def rehearse(setup: Setup) -> None:
    """Runs one job that returns, and one that raises, so that all forks share what that imports, compiles and caches.
    Opens no connection, writes nothing and calls no handler."""
    def run_of(*arguments: Any) -> Run:
        job = setup.job_class.create("os.getpid", arguments, connection=setup.connection, serializer=setup.serializer)
        fields = encoded(job.to_dict())
        return Run(setup, {"id": job.id, "queue": "", "execution": "", "worker": "", "prefix": setup.installed.prefix,
                           "fields": fields})

    ending = run(setup, run_of())
    if ending.outcome != "complete":
        raise RuntimeError(ending.fields["error"])
    try:
        setup.installed.perform(run_of("no argument is taken").job())
    except TypeError as error:
        outcome.describe(error)


def run(setup: Setup, run: Run) -> Ending:
    """Runs the job with its callbacks and handlers, in RQ's order."""
    installed = setup.installed
    try:
        job = run.job()
    except Exception as error:
        return Ending("failed", error=outcome.describe(error))
    started = installed.now()
    job.worker_name, job.started_at, job.last_heartbeat = run.worker, started, started
    job._status = installed.status.STARTED
    before = _own(job)
    try:
        timeout = job.timeout or setup.queue_class.DEFAULT_TIMEOUT
        with setup.penalty(timeout, installed.timeout, job_id=job.id):
            returned = installed.perform(job)
        job.ended_at, job._result = installed.now(), returned
        answer: dict[str, Any] = {"mode": "fast", "rq": installed.version}
        if isinstance(returned, installed.retry):
            answer["retry"] = {"max": returned.max, "intervals": list(returned.intervals),
                               "at_front": bool(getattr(returned, "enqueue_at_front", False))}
        else:
            job._status = installed.status.FINISHED
            setup.call_back(job, "success", returned)
    except Interrupted:
        raise
    except BaseException as error:
        return _failed(setup, run, job, before, error)
    answer["result_ttl"] = job.get_result_ttl(setup.results_ttl)
    value = None if returned is None else _dumped(setup, returned)
    if value is not None and len(value) > _LONGEST:
        # A frame has no room for it: the supervisor takes it from there into the job's results.
        name = f"{installed.prefix}:taskvisor:result:{run.id}:{run.execution}"
        try:
            setup.connection.set(name, value, ex=_KEPT_SECONDS)
        except Exception as error:
            return _failed(setup, run, job, before, error)
        answer["laid_down"] = True
    else:
        answer["return_value"] = value
    changed = _changed(run, job, before)
    if changed:
        answer["fields"] = changed
    return Ending("complete", result=answer)


def _failed(setup: Setup, run: Run, job: Any, before: dict[str, Any], error: BaseException) -> Ending:
    job._status, job.ended_at = setup.installed.status.FAILED, setup.installed.now()
    try:
        setup.call_back(job, "failure", type(error), error, error.__traceback__)
    except Interrupted:
        raise
    except BaseException as second:
        # An exception of a callback replaces that of the job.
        error = second
    handle(setup, job, error)
    # The answer for a failure has no fields, but RQ also keeps what the job has changed of itself then.
    changed = {name: base64.b64decode(value) for name, value in _changed(run, job, before).items()}
    is_for_good = isinstance(error, Fail)
    if is_for_good and job.retries_left:
        # RQ knows no failure for good: a job without retries left is not tried again.
        changed["retries_left"] = b"0"
    if changed:
        job.connection.hset(job.key, mapping=changed)
    return Ending("failed_for_good" if is_for_good else "failed", error=outcome.describe(error))


def handle(setup: Setup, job: Any, error: BaseException) -> None:
    """Calls the exception handlers in turn; one that returns a false value other than None is the last."""
    for handler in setup.handlers:
        goes_on = handler(job, type(error), error, error.__traceback__)
        if goes_on is not None and not goes_on:
            break


def _dumped(setup: Setup, value: Any) -> str:
    """A result in base64, or RQ's text for one that cannot be kept."""
    try:
        kept = setup.serializer.dumps(value)
    except Interrupted:
        raise
    except BaseException as error:
        print(f"taskvisor.rq: the result cannot be kept: {error}", file=sys.stderr)
        kept = setup.serializer.dumps(setup.installed.unserializable)
    return base64.b64encode(kept).decode()


def _own(job: Any) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, list) else value
            for name, value in vars(job).items() if name not in _NOT_ITS_OWN}


def _changed(run: Run, job: Any, before: dict[str, Any]) -> dict[str, str]:
    """The fields of its hash that the job has changed of itself, in base64."""
    if _own(job) == before:
        return {}
    found = encoded(job.to_dict(include_meta=False, include_result=False))
    return {name: value for name, value in found.items()
            if name not in _WRITTEN_ELSEWHERE and run.fields.get(name) != value}
