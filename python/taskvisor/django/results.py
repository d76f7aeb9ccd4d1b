"""What Django sees of a job: its `TaskResult`, made of the record of the job."""

from __future__ import annotations

import builtins
from datetime import datetime, timezone

from django.tasks import base
from django.tasks.exceptions import TaskResultDoesNotExist
from django.utils.module_loading import import_string

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from ..client.job_info import JobInfo

_STATUS = {"running": "RUNNING", "canceling": "RUNNING", "complete": "SUCCESSFUL", "failed": "FAILED", "held": "FAILED",
           "canceled": "FAILED"}


def result_of(info: JobInfo, backend: str) -> Any:
    """The result; `TaskResultDoesNotExist` if the job is none of a task."""
    record = info.record
    data: Any = record.get("data")
    task = task_of(info.class_name, data)
    if task is None:
        raise TaskResultDoesNotExist(info.id)
    status = base.TaskResultStatus(_STATUS.get(info.state, "READY"))
    attempts = _attempts(record)
    made = base.TaskResult(
        task=task, id=info.id, status=status, enqueued_at=_time(record.get("put_at_ms")),
        started_at=_time(attempts[0].get("started_at_ms")) if attempts else None,
        last_attempted_at=_time(attempts[-1].get("started_at_ms")) if attempts else None,
        finished_at=_time(record.get("ended_at_ms")), args=data["args"], kwargs=data["kwargs"], backend=backend,
        errors=[_error(attempt["failure"]) for attempt in attempts if attempt.get("failure")],
        worker_ids=workers_of(record))
    if status == base.TaskResultStatus.SUCCESSFUL:
        object.__setattr__(made, "_return_value", record.get("result"))
    return made


def workers_of(record: dict[str, Any]) -> list[str]:
    """The worker of each attempt, the first one first."""
    return [_worker(attempt) for attempt in _attempts(record)]


def task_of(name: str, data: Any) -> Any:
    """The task that a job calls, as it was put; None if the job is none of a task."""
    if not isinstance(data, dict) or not {"args", "kwargs", "backend"} <= data.keys():
        return None
    try:
        task = import_string(name)
    except ImportError:
        return None
    if not isinstance(task, base.Task):
        return None
    return task.using(priority=data.get("priority"), queue_name=data.get("queue_name"), backend=data["backend"],
                      run_after=_time(data.get("run_after")))


def _attempts(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The attempts so far, the first one first: those that did not complete the job, and the latest."""
    found = [entry.get("attempt", {}) for entry in record.get("history", ()) if entry.get("kind") == "attempt"]
    known = {attempt.get("fence") for attempt in found}
    if record.get("started_at_ms") and record.get("fence") not in known:
        found.append(record)
    elif not found and record.get("failure"):
        found.append(record)
    return found


def _error(failure: dict[str, Any]) -> Any:
    group = str(failure.get("group", ""))
    path = group
    if "." not in group:
        is_plain = isinstance(getattr(builtins, group, None), type)
        path = f"builtins.{group}" if is_plain else "taskvisor.JobFailed"
    # A job that was killed, or held, has raised nothing: the message says what happened.
    return base.TaskError(exception_class_path=path, traceback=failure.get("trace") or f"{group}: {failure.get('message')}\n")


def _worker(attempt: dict[str, Any]) -> str:
    worker = attempt.get("worker") or {}
    life = f"{worker.get('slot', '')}#{worker.get('generation', '')}"
    return f"{attempt['instance'][-8:]}-{life}" if attempt.get("instance") else life


def _time(millis: Optional[int]) -> Optional[datetime]:
    return None if millis is None else datetime.fromtimestamp(millis / 1000, timezone.utc)
