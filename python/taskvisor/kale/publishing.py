"""Publishes tasks through the supervisor: the worker needs no credentials of AWS."""

from __future__ import annotations

from ..client import running_job
from ..client.new_job import NewJob
from ..errors import PutError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from .installed import Installed


class Again:
    """A task that kale sends once more: how the job that runs it ends."""

    def __init__(self, body: str, delay: float) -> None:
        #: The new message.
        self.body = body
        #: Seconds until it may run.
        self.delay = delay


class Publisher:
    """Replaces kale's own publisher while a worker of taskvisor runs a task."""

    def __init__(self, installed: Installed) -> None:
        self._installed = installed
        self._watched: Optional[str] = None
        self._again: Optional[Again] = None

    def publish(self, task_class: Any, task_id: str, payload: dict[str, Any], current_retry_num: Optional[int] = None,
                current_failure_num: Optional[int] = None, delay_sec: Optional[float] = None) -> None:
        """Queues a task; kale's own checks of its delay and size are made first."""
        longest = self._installed.setting("SQS_MAX_TASK_DELAY_SEC", 900)
        if delay_sec is not None and delay_sec > longest:
            raise self._installed.exceptions.InvalidTaskDelayException(
                f"Invalid task delay_sec ({delay_sec} > {longest}).")
        counters = {"current_retry_num": current_retry_num, "current_failure_num": current_failure_num}
        given = {name: value for name, value in counters.items() if value is not None}
        message = self._installed.message(task_class=task_class, task_id=task_id, payload=payload, **given)
        body: str = message.encode()
        if self._watched is not None and self._watched == task_id:
            self._again = Again(body, delay_sec or 0)
            return
        name = f"{task_class.__module__}.{task_class.__name__}"
        job = running_job.running()
        if job is None or job.runtime is None:
            raise PutError(f"failed to publish {name}: in a worker of taskvisor only a task that runs can publish, not "
                           "code that is imported nor a process that a task has started")
        new = NewJob(task_class.queue, name, body, delay=delay_sec or None)
        job.runtime.call("put", {"jobs": [new.fields()]})

    def watch(self, task_id: str) -> None:
        """From now on keeps this task when it is published, instead of queueing it."""
        self._watched, self._again = task_id, None

    def kept(self) -> Optional[Again]:
        """The task that was kept, if any; from now on all tasks are queued."""
        again, self._watched, self._again = self._again, None, None
        return again
