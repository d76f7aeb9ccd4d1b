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
        """Queues a task. Kale's own publisher checks it and makes the message; only the sending is ours."""
        kind = self._installed.publisher
        # Without its constructor, which would open a session of AWS.
        of_kale = kind.__new__(kind)
        queue = _Queue(self, task_class, task_id, bool(delay_sec))
        of_kale._get_or_create_queue = lambda _name: queue
        of_kale.publish(task_class, task_id, payload, current_retry_num, current_failure_num, delay_sec)

    def send(self, task_class: Any, task_id: str, body: str, delay: float) -> None:
        """Queues a message, or keeps it if its task is watched."""
        if self._watched is not None and self._watched == task_id:
            self._again = Again(body, delay)
            return
        name = f"{task_class.__module__}.{task_class.__name__}"
        job = running_job.running()
        if job is None or job.runtime is None:
            raise PutError(f"failed to publish {name}: in a worker of taskvisor only a task that runs can publish, not "
                           "code that is imported nor a process that a task has started")
        new = NewJob(task_class.queue, name, body, delay=delay or None)
        job.runtime.call("put", {"jobs": [new.fields()]})

    def watch(self, task_id: str) -> None:
        """From now on keeps this task when it is published, instead of queueing it."""
        self._watched, self._again = task_id, None

    def kept(self) -> Optional[Again]:
        """The task that was kept, if any; from now on all tasks are queued."""
        again, self._watched, self._again = self._again, None, None
        return again


class _Queue:
    """What kale's publisher takes for a queue of SQS."""

    def __init__(self, publisher: Publisher, task_class: Any, task_id: str, delayed: bool) -> None:
        self._publisher = publisher
        self._task_class = task_class
        self._task_id = task_id
        self._delayed = delayed

    def send_message(self, MessageBody: str, DelaySeconds: float) -> None:
        """Takes a message. Kale gives a second of delay to a task without one, which is not needed here."""
        self._publisher.send(self._task_class, self._task_id, MessageBody, DelaySeconds if self._delayed else 0)
