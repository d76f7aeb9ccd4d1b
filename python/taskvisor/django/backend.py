"""The backend for ``TASKS`` in Django's settings."""

from __future__ import annotations

import time
from functools import partial

from django.core import checks
from django.db import transaction
from django.tasks import base
from django.tasks.exceptions import TaskResultDoesNotExist
from django.tasks.signals import task_enqueued
from django.utils import timezone
from django.utils.json import normalize_json

from ..client import asking, endpoint, outside, putting
from ..client.job_id import JobId
from ..client.new_job import NewJob
from ..errors import NoSuchJob, SupervisorError
from .results import result_of
from .task import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from ..client.stand_in import StandIn

    class _Backend:
        """Django's class, which has no types."""

        alias: str
        options: dict[str, Any]
        task_class: type

        def __init__(self, alias: str, params: dict[str, Any]) -> None: ...

        def validate_task(self, task: Any) -> None:
            """Raises `InvalidTask` for a task that this backend cannot queue."""
else:
    from django.tasks.backends.base import BaseTaskBackend as _Backend

#: What OPTIONS may hold.
_OPTIONS = frozenset(("on_commit", "database", "retries", "time_limit", "url", "token_file", "socket", "redis"))


class Backend(_Backend):
    """Queues tasks of Django as jobs, with the path of the task as their class.

    OPTIONS, all of them optional: `on_commit` puts when the transaction of `database` is committed; `retries` and
    `time_limit` for tasks without their own; `url` and `token_file`, `socket`, or `redis` name another place of the jobs.
    """

    task_class = Task
    supports_defer: bool = True
    supports_async_task: bool = True
    supports_get_result: bool = True
    supports_priority: bool = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        unknown = set(self.options) - _OPTIONS
        if unknown:
            from django.core.exceptions import ImproperlyConfigured

            raise ImproperlyConfigured(f"TASKS[{alias!r}] has OPTIONS that taskvisor does not know: "
                                       f"{', '.join(sorted(unknown))}; it knows {', '.join(sorted(_OPTIONS))}")
        self._place: Optional[StandIn] = _place(self.options)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Queues a task; with `on_commit` when the transaction is committed, and not if it is rolled back."""
        self.validate_task(task)
        data = {"args": normalize_json(list(args)), "kwargs": normalize_json(dict(kwargs)), "backend": self.alias,
                "priority": task.priority, "queue_name": task.queue_name}
        if task.run_after is not None:
            data["run_after"] = int(task.run_after.timestamp() * 1000)
        result = base.TaskResult(
            task=task, id=outside.new_id(), status=base.TaskResultStatus.READY, enqueued_at=None, started_at=None,
            last_attempted_at=None, finished_at=None, args=data["args"], kwargs=data["kwargs"], backend=self.alias,
            errors=[], worker_ids=[])
        job = NewJob(task.queue_name, task.module_path, data, None, task.priority or None, None, self._of(task, "retries", 0),
                     self._of(task, "time_limit", None), result.id, "skip")
        put = partial(self._put, job, result)
        if self.options.get("on_commit"):
            transaction.on_commit(put, using=self.options.get("database"))
        else:
            put()
        return result

    def get_result(self, result_id: str) -> Any:
        """The result as it is now."""
        try:
            id = JobId(result_id) if self._place is None else putting.of_place(self._place, result_id)
            return result_of(id.info(), self.alias)
        except NoSuchJob:
            raise TaskResultDoesNotExist(result_id) from None

    def check(self, **kwargs: Any) -> list[Any]:
        """Says, as a warning of ``manage.py check``, that nobody takes tasks."""
        hint = ("Start it: taskvisor start -- python3 -m taskvisor.django; or name it by TASKVISOR_RUN_DIR, or in OPTIONS.")
        at, unserved = getattr(self._place, "at", None), getattr(self._place, "unserved", None)
        if unserved is not None:
            # A Redis: supervisors give signs of life there.
            why = unserved()
            return [checks.Warning(f"TASKS[{self.alias!r}]: {why}", hint=hint, id="taskvisor.W001")] if why else []
        try:
            reply = asking.once("GET", "/readyz", timeout=2.0, at=at)
        except (endpoint.Nobody, endpoint.Busy, asking.Lost, SupervisorError, OSError) as error:
            return [checks.Warning(f"TASKS[{self.alias!r}]: {error}", hint=hint, id="taskvisor.W001")]
        if reply.is_good:
            return []
        return [checks.Warning(f"TASKS[{self.alias!r}]: the supervisor is not ready: {reply.reason()}", id="taskvisor.W002")]

    def _of(self, task: Any, name: str, default: Any) -> Any:
        own = getattr(task, name, None)
        return self.options.get(name, default) if own is None else own

    def _put(self, job: NewJob, result: Any) -> None:
        run_after = result.task.run_after
        if run_after is not None:
            # Only now is it known how long that is.
            job.delay = max(0.0, run_after.timestamp() - time.time())
        putting.put_at(self._place, [job])
        object.__setattr__(result, "enqueued_at", timezone.now())
        task_enqueued.send(type(self), task_result=result)


def _place(options: dict[str, Any]) -> Optional[StandIn]:
    """Where these OPTIONS say that jobs are put; None = where this process puts others."""
    if "redis" in options:
        from ..redis.place import RedisPlace

        return RedisPlace(options["redis"])
    if "url" in options or "socket" in options:
        from ..api.client import Client

        return Client(options.get("url"), token_file=options.get("token_file"), socket=options.get("socket")).place
    return None
