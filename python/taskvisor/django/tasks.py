"""The application that workers run: tasks of Django by their path, and jobs of `@job` beside them."""

from __future__ import annotations

import logging
import os
import socket
from functools import partial

from django.db import close_old_connections
from django.tasks import base
from django.tasks.signals import task_finished, task_started
from django.utils import timezone
from django.utils.json import normalize_json

from ..client import registry
from ..client.running_job import current_job
from ..errors import PutError
from .results import task_of, workers_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable, Optional

    from ..client.running_job import Job
    from ..worker.application import Function

_logger = logging.getLogger("taskvisor")


class Tasks:
    """Finds the function of a job."""

    def hello_classes(self) -> Optional[dict[str, dict[str, float]]]:
        """None: tasks are found by their path when they come."""
        return None

    def has_coroutines(self) -> bool:
        """Whether jobs of `@job` need an event loop. The mode `coroutine` is asked for by ``--async``."""
        return registry.has_coroutines()

    def schedules(self) -> dict[str, dict[str, Any]]:
        """The jobs of `@job` that recur: tasks of Django do not."""
        return registry.schedules()

    def find(self, job: Job) -> Optional[Function]:
        """The function for a job; None if there is none for its class."""
        task = task_of(job.class_name, job.data)
        return registry.find(job) if task is None else TaskFunction(task)


class TaskFunction:
    """A task as the function of a job: with the signals of Django around it, and its connections in order."""

    def __init__(self, task: Any) -> None:
        self._task = task
        self.is_async: bool = _is_async(task.func)
        self.function: Callable[..., Any] = self._run_coroutine if self.is_async else self._run

    def call_for(self, data: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        """The arguments: all of the data."""
        return (data,), {}

    def _run(self, data: Any) -> Any:
        result = self._begin(data)
        try:
            return self._succeeded(result, self._task.func(*self._arguments(result), **result.kwargs))
        except BaseException as error:
            self._failed(result, error)
            raise
        finally:
            close_old_connections()

    async def _run_coroutine(self, data: Any) -> Any:
        from asyncio import CancelledError

        from asgiref.sync import sync_to_async

        result = await sync_to_async(self._begin)(data)
        try:
            value = await self._task.func(*self._arguments(result), **result.kwargs)
            return await sync_to_async(self._succeeded)(result, value)
        except BaseException as error:
            try:
                # In a thread, as for a success: receivers may use the database.
                await sync_to_async(self._failed)(result, error)
            except CancelledError:
                _logger.warning("task_finished of task %s was not awaited: the task was canceled again", result.id)
            raise
        finally:
            await sync_to_async(close_old_connections)()

    def _begin(self, data: Any) -> Any:
        close_old_connections()
        job, now = current_job(), timezone.now()
        result = _Running(
            task=self._task, id=job.id, status=base.TaskResultStatus.RUNNING, enqueued_at=None, started_at=now,
            last_attempted_at=now, finished_at=None, args=data["args"], kwargs=data["kwargs"], backend=data["backend"],
            errors=[], worker_ids=partial(_workers, job))
        object.__setattr__(result, "_attempts", job.attempt)
        if os.environ.get("TASKVISOR_MODE") == "coroutine":
            # Here is a thread. Code of the task that looks may be in the event loop, which must not wait.
            result.worker_ids  # noqa: B018
        task_started.send(sender=type(self._task.get_backend()), task_result=result)
        return result

    def _arguments(self, result: Any) -> list[Any]:
        context = [base.TaskContext(task_result=result)] if self._task.takes_context else []
        return context + list(result.args)

    def _succeeded(self, result: Any, value: Any) -> Any:
        kept = normalize_json(value)
        object.__setattr__(result, "_return_value", kept)
        self._finish(result, base.TaskResultStatus.SUCCESSFUL)
        return kept

    def _failed(self, result: Any, error: BaseException) -> None:
        from traceback import format_exception

        kind = type(error)
        result.errors.append(base.TaskError(exception_class_path=f"{kind.__module__}.{kind.__qualname__}",
                                            traceback="".join(format_exception(kind, error, error.__traceback__))))
        try:
            self._finish(result, base.TaskResultStatus.FAILED)
        except Exception:  # The task has failed of its own error, which this one must not hide.
            _logger.exception("a receiver of task_finished failed after task %s", result.id)

    def _finish(self, result: Any, status: Any) -> None:
        object.__setattr__(result, "finished_at", timezone.now())
        object.__setattr__(result, "status", status)
        task_finished.send(sender=type(self._task.get_backend()), task_result=result)


class _Running(base.TaskResult):  # type: ignore[misc]  # Without Django installed it is Any.
    """The result of a task that runs. Its workers are found out when somebody looks: that may be a call to the supervisor,
    which each process makes once, and so each job of the mode fork would."""

    __slots__ = ("_attempts", "_found")

    @property
    def attempts(self) -> int:
        """Number of attempts so far."""
        found: int = self._attempts
        return found

    @property
    def worker_ids(self) -> Any:
        """The workers of the attempts so far."""
        found: Any = self._found
        if callable(found):
            found = found()
            object.__setattr__(self, "_found", found)
        return found

    @worker_ids.setter
    def worker_ids(self, found: Any) -> None:
        object.__setattr__(self, "_found", found)


#: The name of the worker that is this process, with its pid.
_own: list[Any] = []


def _workers(job: Job) -> list[str]:
    """The workers of the attempts so far, as the result names them later: of retries the supervisor knows."""
    if _own[:1] == [os.getpid()] and job.attempt == 1:
        return [str(_own[1])]
    names: list[str] = []
    try:
        if job.runtime is not None:
            names = workers_of(job.runtime.call("job", {"id": job.id}))
    except PutError:
        pass  # The broker is away, which must not fail the task.
    if not names:
        return [f"{socket.gethostname()}-{os.getpid()}"] * job.attempt
    _own[:] = [os.getpid(), names[-1]]
    # Attempts that were given back do not count, and the oldest are forgotten.
    return (names[:1] * job.attempt + names)[-job.attempt:]


def _is_async(function: Any) -> bool:
    import inspect

    return inspect.iscoroutinefunction(function)
