"""Runs a job and reports its end to the supervisor: without a connection, unless the job's code uses one."""

from __future__ import annotations

import base64
import sys

from ..errors import Fail, Interrupted
from ..worker import outcome
from ..worker.outcome import Ending
from .run import encoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .run import Run, Setup

#: Attributes of a job object that the end of a job writes anyway, and those made of its data at the first look.
_NOT_ITS_OWN = {"_status", "_result", "_data", "_func_name", "_instance", "_args", "_kwargs", "_success_callback",
                "_failure_callback", "_stopped_callback", "_exc_info", "_cached_result", "_dependency", "meta",
                "started_at", "ended_at", "last_heartbeat", "worker_name", "redis_server_version", "connection",
                "serializer", "log"}
#: Fields of its hash that the supervisor writes.
_WRITTEN_ELSEWHERE = {b"status", b"started_at", b"ended_at", b"last_heartbeat", b"worker_name", b"enqueued_at", b"data"}


def run(setup: Setup, run: Run) -> Ending:
    """Runs the job with its callbacks and handlers, in RQ's order."""
    installed = setup.installed
    penalty = setup.worker_class.death_penalty_class
    try:
        job = run.job()
    except Exception as error:
        return Ending("failed", error=outcome.describe(error))
    started = installed.now()
    job.worker_name, job.started_at, job.last_heartbeat = run.worker, started, started
    job._status = installed.status("STARTED")
    before = _own(job)
    try:
        with penalty(job.timeout or setup.queue_class.DEFAULT_TIMEOUT, installed.timeout, job_id=job.id):
            returned = installed.perform(job)
        job.ended_at, job._result = installed.now(), returned
        answer: dict[str, Any] = {"mode": "fast", "rq": installed.version}
        if isinstance(returned, installed.retry):
            answer["retry"] = {"max": returned.max, "intervals": list(returned.intervals),
                               "at_front": bool(getattr(returned, "enqueue_at_front", False))}
        else:
            job._status = installed.status("FINISHED")
            installed.call_back(job, "success", penalty, returned)
    except Interrupted:
        raise
    except BaseException as error:
        return _failed(setup, run, job, before, error)
    answer["result_ttl"] = job.get_result_ttl(setup.results_ttl)
    answer["return_value"] = None if returned is None else _text(_dumped(setup, returned))
    changed = _changed(run, job, before)
    if changed:
        answer["fields"] = {name: _text(value) for name, value in changed.items()}
    return Ending("complete", result=answer)


def _failed(setup: Setup, run: Run, job: Any, before: dict[str, Any], error: BaseException) -> Ending:
    installed = setup.installed
    job._status, job.ended_at = installed.status("FAILED"), installed.now()
    try:
        installed.call_back(job, "failure", setup.worker_class.death_penalty_class, type(error), error,
                            error.__traceback__)
    except Interrupted:
        raise
    except BaseException as second:
        # An exception of a callback replaces that of the job.
        error = second
    handle(setup, job, error)
    is_for_good = isinstance(error, Fail)
    if is_for_good and job.retries_left:
        # RQ knows no failure for good: a job without retries left is not tried again.
        job.connection.hset(job.key, "retries_left", 0)
    changed = _changed(run, job, before)
    if changed:
        # The answer for a failure has no fields, but RQ also keeps what the job has changed of itself then.
        job.connection.hset(job.key, mapping=changed)
    return Ending("failed_for_good" if is_for_good else "failed", error=outcome.describe(error))


def handle(setup: Setup, job: Any, error: BaseException) -> None:
    """Calls the exception handlers in turn; one that returns a false value other than None is the last."""
    for handler in setup.handlers:
        goes_on = handler(job, type(error), error, error.__traceback__)
        if goes_on is not None and not goes_on:
            break


def _dumped(setup: Setup, value: Any) -> bytes:
    """The bytes of a result, or RQ's text for one that cannot be kept."""
    try:
        return bytes(setup.serializer.dumps(value))
    except Interrupted:
        raise
    except BaseException:
        print(f"taskvisor.rq: the result cannot be kept: {sys.exc_info()[1]}", file=sys.stderr)
        return bytes(setup.serializer.dumps(setup.installed.unserializable))


def _own(job: Any) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, list) else value
            for name, value in vars(job).items() if name not in _NOT_ITS_OWN}


def _changed(run: Run, job: Any, before: dict[str, Any]) -> dict[str, bytes]:
    """The fields of its hash that the job has changed of itself."""
    if _own(job) == before:
        return {}
    found = encoded(job.to_dict(include_meta=False, include_result=False))
    return {name.decode(): value for name, value in found.items()
            if name not in _WRITTEN_ELSEWHERE and run.fields.get(name) != value}


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()
